"""Tools of type ``sql``: the model writes a query, the client runs it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal

from responses_plugin.generation.items import OutputItemKind
from responses_plugin.generation.json_text import SingleStringDecoder
from responses_plugin.hookspecs import hookimpl
from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import Tool


class SqlTool(Tool):
    """``{"type": "sql", "name": "orders", "tables": "create table …"}``, as a client declares it."""

    type: Literal["sql"]
    name: str
    tables: str = ""


class SqlCall(ToolCall):
    """``{"type": "sql_call", "call_id": …, "name": "orders", "query": "select …"}``, as a client replays it."""

    type: Literal["sql_call"]
    name: str
    query: str


class SqlCallOutput(ToolOutput):
    type: Literal["sql_call_output"]


def functions(tool: SqlTool) -> Iterable[Function]:
    """What the model sees instead of the tool: a function of one string."""
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    description = f"Query a database with these tables:\n{tool.tables}"
    return [Function(name=tool.name, description=description, parameters=parameters)]


def history_call(call: SqlCall) -> tuple[str, str]:
    """An earlier call as the model wrote it."""
    return call.name, json.dumps({"query": call.query}, ensure_ascii=False)


SQL = ToolKind(
    type="sql",
    tool=SqlTool,
    functions=functions,
    call=SqlCall,
    output=SqlCallOutput,
    history_call=history_call,
    output_item=OutputItemKind(
        type="sql_call",
        id_prefix="sql",
        payload="query",
        decoder=SingleStringDecoder,
        delta_event="response.sql_call_query.delta",
        done_event="response.sql_call_query.done",
    ),
)


@hookimpl
def responses_tool_kinds() -> Iterable[ToolKind]:
    return [SQL]
