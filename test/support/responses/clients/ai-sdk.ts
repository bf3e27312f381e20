/** Typical uses of `ai` and `@ai-sdk/openai` against the server at OPENAI_BASE_URL. Prints the results as JSON. */
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, type ModelMessage, stepCountIs, streamText, tool } from 'ai';
import * as z from 'zod';

const own = { baseURL: process.env.OPENAI_BASE_URL ?? '', apiKey: 'unused' };
const openai = createOpenAI(own);
const desk = { serverLabel: 'desk', serverUrl: 'http://127.0.0.1:9/' };
const tools = { desk: openai.tools.mcp({ ...desk, requireApproval: 'always' }) };

console.log(
  JSON.stringify({
    approve: await decide(true),
    deny: await decide(false),
    stream: await stream(),
    talk: await talk(),
    mixed: await mix(),
  }),
);

async function decide(approved: boolean) {
  const model = openai.responses('approve-ai');
  const messages: ModelMessage[] = [{ role: 'user', content: 'Say hi.' }];
  const asked = await generateText({ model, tools, messages });
  const request = asked.content.find(part => part.type === 'tool-approval-request');
  messages.push(...asked.response.messages, {
    role: 'tool',
    content: [
      {
        type: 'tool-approval-response',
        approvalId: request?.approvalId ?? '',
        approved,
        providerExecuted: true,
      },
    ],
  });
  const done = await generateText({ model, tools, messages });
  messages.push(...done.response.messages, { role: 'user', content: 'Thanks.' });
  const last = await generateText({ model, tools, messages });
  return {
    asked: asked.content.map(({ type }) => type),
    done: done.content.map(({ type }) => type),
    text: done.text,
    last: last.text,
  };
}

/** A client function call and four answers; the third answer is sent back without its id. */
async function talk() {
  const ask = tool({ inputSchema: z.object({}), execute: () => 'asked' });
  const messages: ModelMessage[] = [];
  const texts: string[] = [];
  let sent = '{}';
  const { responses } = createOpenAI({
    ...own,
    fetch: async (url, init) => {
      sent = String(init?.body);
      return await fetch(url, init);
    },
  });
  for (const turn of [1, 2, 3, 4]) {
    messages.push({ role: 'user', content: `Turn ${turn}.` });
    const result = await generateText({
      model: responses('talk-ai'),
      messages,
      tools: { ask },
      stopWhen: stepCountIs(2),
    });
    if (turn === 3) messages.push({ role: 'assistant', content: result.text });
    else messages.push(...result.responseMessages);
    texts.push(result.text);
  }
  const { input } = JSON.parse(sent) as { input: { type?: string; role?: string }[] };
  return { texts, sent: input.map(({ type, role }) => type ?? role) };
}

async function stream() {
  const model = openai.responses('free-ai');
  const parts: string[] = [];
  const errors: unknown[] = [];
  const free = { desk: openai.tools.mcp({ ...desk, requireApproval: 'never' }) };
  const result = streamText({
    model,
    tools: free,
    prompt: 'Say hi.',
    onError: ({ error }) => errors.push(String(error)),
  });
  for await (const part of result.fullStream) parts.push(part.type);
  return {
    text: await result.text,
    reasoning: await result.reasoningText,
    parts: [...new Set(parts)],
    errors,
  };
}

/** The SDK runs the function of a turn and asks again at once; the MCP call of that turn is approved afterwards. */
async function mix() {
  const never = { toolNames: ['pid'] };
  const mixed = {
    desk: openai.tools.mcp({ ...desk, requireApproval: { never } }),
    ask: tool({ inputSchema: z.object({}), execute: () => 'yes' }),
  };
  const messages: ModelMessage[] = [{ role: 'user', content: 'Mix.' }];
  const ask = async () => {
    const { text, content, responseMessages } = await generateText({
      model: openai('mixed'),
      tools: mixed,
      messages,
      stopWhen: stepCountIs(4),
    });
    messages.push(...responseMessages);
    return { text, asked: content.filter(part => part.type === 'tool-approval-request') };
  };
  const first = await ask();
  messages.push({
    role: 'tool',
    content: first.asked.map(({ approvalId }) => ({
      type: 'tool-approval-response',
      approvalId,
      approved: true,
      providerExecuted: true,
    })),
  });
  const second = await ask();
  messages.push({ role: 'user', content: 'And now?' });
  return { asked: first.asked.length, texts: [second.text, (await ask()).text] };
}
