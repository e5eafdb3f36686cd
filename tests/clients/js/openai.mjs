// openai-js: node openai.mjs JOB URL OPTIONS prints what the client got.

import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [, , job, baseURL, optionsText] = process.argv;
const options = JSON.parse(optionsText);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 });
const City = z.object({ name: z.string(), people: z.number() });

// Every way to get an answer ends in the whole response.
const ways = {
  create: (request) => client.responses.create(request),
  streamed: async (request) => {
    let last;
    for await (const event of await client.responses.create({ ...request, stream: true })) last = event;
    return last.response;
  },
  helper: (request) => client.responses.stream(request).finalResponse(),
};
const ask = (request) => ways[options.way]({ model: "scripted", ...request });

const jobs = {
  // One or more requests, each continuing with what the one before it returned and what the options add.
  conversation: async () => {
    const responses = [];
    let input = [];
    for (const turn of options.turns) {
      const replies = (responses.at(-1)?.output ?? [])
        .filter((item) => item.call_id)
        .map((item) => ({ ...options.reply, call_id: item.call_id }));
      // What the helper adds to items is not for the server.
      const before = (responses.at(-1)?.output ?? []).map(({ parsed_arguments, ...item }) => item);
      input = [...input, ...before, ...replies, ...turn];
      responses.push(await ask({ input, ...options.request }));
    }
    return { responses };
  },
  events: async () => {
    const seen = [];
    const stream = client.responses.stream({ model: "scripted", ...options.request });
    stream.on("response.output_text.delta", (event) => seen.push([event.delta, event.snapshot]));
    const response = await stream.finalResponse();
    return { seen, text: response.output_text };
  },
  parse: async () => {
    const request = { model: "scripted", input: "A city.", text: { format: zodTextFormat(City, "city") } };
    const parsed = await client.responses.parse(request);
    const streamed = await client.responses.stream(request).finalResponse();
    return { parsed: [parsed.output_parsed, streamed.output_parsed] };
  },
  stored: async () => {
    const first = await ask({ input: "Hi." });
    const second = await ask({ input: "And?", previous_response_id: first.id });
    const read = await client.responses.retrieve(first.id);
    await client.responses.delete(first.id);
    const gone = await client.responses.retrieve(first.id).catch((error) => error);
    return { first, second, read, gone: gone.constructor.name };
  },
  abort: async () => {
    const stream = client.responses.stream({ model: "scripted", input: "hi" });
    stream.on("response.output_text.delta", () => stream.abort());
    const error = await stream.finalResponse().catch((caught) => caught);
    return { error: error.constructor.name };
  },
};

const result = await jobs[job]().catch((error) => ({
  error: { name: error.constructor.name, status: error.status, code: error.code, message: error.message },
}));
console.log(JSON.stringify(result));
