// The Vercel AI SDK: node vercel.mjs JOB URL OPTIONS prints what the SDK made of the server's answers.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [, , job, baseURL, optionsText] = process.argv;
const options = JSON.parse(optionsText);

// The types of the input items of each request.
const sent = [];
const openai = createOpenAI({
  baseURL,
  apiKey: "unused",
  fetch: (url, init) => {
    sent.push(JSON.parse(init.body).input.map((item) => item.type ?? item.role));
    return fetch(url, init);
  },
});
// What the tools of a job were called with.
const ran = [];

const tools = {
  look: tool({
    description: "Looks somewhere.",
    inputSchema: z.object({ place: z.string() }),
    execute: async (input) => {
      ran.push(input);
      return `a tree in ${input.place}`;
    },
  }),
  screenshot: tool({
    description: "Takes a picture.",
    inputSchema: z.object({}),
    execute: async (input) => {
      ran.push(input);
      return options.image;
    },
    toModelOutput: ({ output }) => ({
      type: "content",
      value: [
        { type: "text", text: "The picture:" },
        { type: "image-data", mediaType: "image/png", data: output.split(",")[1] },
      ],
    }),
  }),
  run: openai.tools.customTool({
    name: "run",
    description: "Runs code.",
    execute: async (input) => {
      ran.push(input);
      return `<${input}>`;
    },
  }),
  apply_patch: openai.tools.applyPatch({
    execute: async ({ operation }) => {
      ran.push(operation);
      return { status: "completed", output: "patched" };
    },
  }),
  shell: openai.tools.shell({
    execute: async ({ action }) => {
      ran.push(action);
      return { output: [{ stdout: "a.txt", stderr: "", outcome: { type: "exit", exitCode: 3 } }] };
    },
  }),
  local_shell: openai.tools.localShell({
    execute: async ({ action }) => {
      ran.push(action);
      return { output: "a.txt" };
    },
  }),
};

// A tool that the model has to find first, and the search that finds it.
const later = tool({
  description: "Found later.",
  inputSchema: z.object({ place: z.string() }),
  execute: tools.look.execute,
  providerOptions: { openai: { deferLoading: true } },
});
const search = openai.tools.toolSearch({
  execution: "client",
  description: "Finds tools.",
  parameters: { type: "object", properties: { goal: { type: "string" } }, required: ["goal"] },
  execute: async ({ arguments: found }) => {
    ran.push(found);
    const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
    return { tools: [{ type: "function", name: "later", description: "Found later.", parameters }] };
  },
});

const jobs = {
  text: () => ({ system: "Be brief.", prompt: "What time is it?" }),
  image: () => ({
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: options.prompt ?? "What is this?" },
          { type: "image", image: options.image },
        ],
      },
    ],
  }),
  tool: () => ({ prompt: options.prompt ?? "Go.", tools: { [options.tool]: tools[options.tool] }, stopWhen: stepCountIs(3) }),
  search: () => ({ prompt: "Go.", tools: { toolSearch: search, later }, stopWhen: stepCountIs(4) }),
  structured: () => ({
    prompt: "A city.",
    output: Output.object({ schema: z.object({ name: z.string(), people: z.number() }) }),
  }),
};

const request = {
  model: openai.responses(options.model ?? "scripted"),
  maxRetries: 0,
  providerOptions: { openai: options.provider ?? {} },
  ...jobs[job](),
};

async function whole() {
  const result = await generateText(request);
  return {
    text: result.text,
    steps: result.steps.map((step) => step.content.map((part) => part.type)),
    reasoning: result.steps.map((step) => step.reasoningText ?? ""),
    finishReason: result.finishReason,
    usage: result.totalUsage,
    warnings: result.steps.flatMap((step) => step.warnings ?? []),
    output: job === "structured" ? result.output : undefined,
  };
}

async function streamed() {
  const errors = [];
  const deltas = [];
  const result = streamText({ ...request, onError: ({ error }) => errors.push(String(error?.message ?? error)) });
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") deltas.push(part.text);
  }
  if (errors.length) return { errors, deltas };
  const steps = await result.steps;
  return {
    text: await result.text,
    deltas,
    steps: steps.map((step) => step.content.map((part) => part.type)),
    reasoning: steps.map((step) => step.reasoningText ?? ""),
    finishReason: await result.finishReason,
    usage: await result.totalUsage,
    warnings: steps.flatMap((step) => step.warnings ?? []),
    output: job === "structured" ? await result.output : undefined,
  };
}

async function run() {
  try {
    return await (options.stream ? streamed() : whole());
  } catch (error) {
    return { error: { name: error.name, status: error.statusCode, message: error.message } };
  }
}

console.log(JSON.stringify({ ...(await run()), ran, sent }));
