/** Typical uses of the `openai` client against the server at OPENAI_BASE_URL. Prints the results as JSON. */
import OpenAI from 'openai';

let sent = 0;
const client = new OpenAI({
  fetch: (input, init) => {
    sent += 1;
    return fetch(input, init);
  },
});
const desk = { type: 'mcp', server_label: 'desk', require_approval: 'always' } as const;

console.log(
  JSON.stringify({
    create: await create(),
    stream: await stream(),
    stored: await stored(),
    approve: await decide('approve-openai', true),
    deny: await decide('approve-openai', false),
    everything: await everything(),
    functions: await functions(),
    refused: await refused(),
    failed: await failed(),
    conversation: await conversation(),
    compact: await compact(),
  }),
);

async function conversation() {
  const { id } = await client.conversations.create({
    metadata: { topic: 'greetings' },
    items: [{ role: 'user', content: 'Before.' }],
  });
  const response = await client.responses.create({ model: 'hello', input: 'Say hello.', conversation: id });
  const texts: unknown[] = [];
  for await (const item of client.conversations.items.list(id, { order: 'asc', limit: 1 }))
    texts.push(item.type === 'message' && 'text' in (item.content[0] ?? {}) ? item.content[0] : item.type);
  const [added] = (
    await client.conversations.items.create(id, { items: [{ role: 'user', content: 'After.' }] })
  ).data;
  const itemId = String(added?.id);
  const kept = await client.conversations.items.retrieve(itemId, { conversation_id: id });
  await client.conversations.items.delete(itemId, { conversation_id: id });
  const { metadata } = await client.conversations.update(id, { metadata: { topic: 'none' } });
  const { deleted } = await client.conversations.delete(id);
  const gone = await client.conversations.retrieve(id).catch(error => error);
  return {
    echoed: response.conversation?.id === id,
    texts: texts.length,
    kept: kept.id === itemId,
    metadata,
    deleted,
    gone: { name: gone.constructor.name, code: gone.code },
  };
}

async function compact() {
  const { output, usage } = await client.responses.compact({ model: 'hello', input: 'Say hello.' });
  const next = await client.responses.create({
    model: 'hello',
    input: [...(output as OpenAI.Responses.ResponseInputItem[]), { role: 'user', content: 'Again.' }],
  });
  const counted = await client.responses.inputTokens.count({ model: 'hello', input: 'Say hello.' });
  return {
    types: output.map(({ type }) => type),
    usage: usage.total_tokens,
    text: next.output_text,
    counted: counted.input_tokens,
  };
}

async function create() {
  const response = await client.responses.create({ model: 'hello', input: 'Say hello.' });
  return { text: response.output_text, status: response.status, usage: response.usage?.total_tokens };
}

async function stream() {
  const types: string[] = [];
  const stream = client.responses.stream({ model: 'hello', input: 'Say hello.' });
  let text = '';
  stream.on('event', event => types.push(event.type));
  stream.on('response.output_text.delta', event => {
    text += event.delta;
  });
  const final = await stream.finalResponse();
  return { text, final: final.output_text, types };
}

async function stored() {
  const { id, output_text } = await client.responses.create({ model: 'hello', input: 'Keep this.' });
  const again = await client.responses.retrieve(id);
  const items: string[] = [];
  for await (const item of client.responses.inputItems.list(id)) items.push(item.type ?? '');
  await client.responses.delete(id);
  const gone = await client.responses.retrieve(id).catch(error => error);
  return {
    same: again.output_text === output_text,
    items,
    gone: { name: gone.constructor.name, status: gone.status },
  };
}

async function decide(model: string, approve: boolean) {
  const asked = await client.responses.create({ model, input: 'Say hi.', tools: [desk] });
  const request = asked.output.find(item => item.type === 'mcp_approval_request');
  const stream = client.responses.stream({
    model,
    tools: [desk],
    previous_response_id: asked.id,
    input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve }],
  });
  const done = await stream.finalResponse();
  return {
    asked: asked.output.map(({ type }) => type),
    done: done.output.map(({ type }) => type),
    text: done.output_text,
  };
}

async function everything() {
  const tools = [{ type: 'mcp', server_label: 'everything', require_approval: 'never' } as const];
  const { output } = await client.responses.create({ model: 'everything', input: 'Echo.', tools });
  const list = output.find(item => item.type === 'mcp_list_tools');
  return { tools: list?.tools.map(({ name }) => name), call: output.find(item => item.type === 'mcp_call') };
}

async function functions() {
  const tools = [
    { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} }, strict: false } as const,
  ];
  const asked = await client.responses.create({ model: 'ask', input: 'Ask.', tools });
  const [call] = asked.output;
  if (call?.type !== 'function_call') throw new Error('there is no call');
  const done = await client.responses.create({
    model: 'ask',
    tools,
    previous_response_id: asked.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: 'yes' }],
  });
  return { name: call.name, text: done.output_text };
}

async function refused() {
  const error = await client.responses.create({ model: 'no such model', input: 'x' }).catch(error => error);
  return { name: error.constructor.name, code: error.code, param: error.param, type: error.type };
}

async function failed() {
  const before = sent;
  const error = await client.responses.create({ model: 'failing', input: 'x' }).catch(error => error);
  return { status: error.status, sent: sent - before };
}
