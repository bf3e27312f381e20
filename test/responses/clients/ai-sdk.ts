/** What people do with `ai` and `@ai-sdk/openai`, against the server at OPENAI_BASE_URL. Prints what came of it as JSON. */
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, type ModelMessage, streamText } from 'ai';

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL ?? '', apiKey: 'unused' });
const desk = { serverLabel: 'desk', serverUrl: 'http://127.0.0.1:9/' };
const tools = { desk: openai.tools.mcp({ ...desk, requireApproval: 'always' }) };

console.log(
  JSON.stringify({ approve: await decide(true), deny: await decide(false), stream: await stream() }),
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
