import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Side } from './side.ts';

/** A conversation that both servers are put through. `needsMcp` scenarios use an MCP server with the tool `echo`. */
export type Scenario = {
  name: string;
  needsMcp?: boolean;
  /** Errors before anything is streamed look the same with and without streaming. */
  once?: boolean;
  /** The steps that a correct server refuses; `all` of them. Every other step has to succeed on both servers. */
  refusals?: 'all' | readonly string[];
  play(side: Side, options: { mcpUrl: string }): Promise<void>;
};

const lookUp = {
  type: 'function',
  name: 'look_up',
  description: 'Looks a word up.',
  parameters: {
    type: 'object',
    properties: { word: { type: 'string' } },
    required: ['word'],
    additionalProperties: false,
  },
  strict: true,
};
const CALL_LOOK_UP = 'Call the tool look_up with the arguments {"word":"tide"}. Then say its result.';
const CALL_ECHO = 'Call the tool echo with the arguments {"text":"hello"}. Then say its result.';
const CALL_BOTH = `Call two tools at once, in this turn: echo with the arguments {"text":"hello"} and look_up with the arguments {"word":"tide"}.`;

function mcp(mcpUrl: string, require_approval: 'always' | 'never'): JsonObject {
  return { type: 'mcp', server_label: 'desk', server_url: mcpUrl, require_approval, allowed_tools: ['echo'] };
}

/** The output items of a response with a type. */
function itemsOf({ output }: JsonObject, type: string): JsonObject[] {
  return Array.isArray(output) ? output.filter(isJsonObject).filter(item => item.type === type) : [];
}

function idOf({ id }: JsonObject): string {
  return typeof id === 'string' ? id : 'none';
}

/** The results of all functions that the response calls. */
function resultsFor(response: JsonObject): JsonObject[] {
  return itemsOf(response, 'function_call').map(({ call_id = 'none' }) => ({
    type: 'function_call_output',
    call_id,
    output: 'the rise and fall of the sea',
  }));
}

function decide(response: JsonObject, approve: boolean): JsonObject[] {
  const requests = itemsOf(response, 'mcp_approval_request');
  return requests.map(request => ({
    type: 'mcp_approval_response',
    approval_request_id: idOf(request),
    approve,
    ...(approve ? {} : { reason: 'not now' }),
  }));
}

export const scenarios: readonly Scenario[] = [
  {
    name: 'text',
    play: async side => {
      const first = await side.create('first', { input: 'Say "hello".', instructions: 'Be brief.' });
      const second = { input: 'Say it again.', previous_response_id: idOf(first) };
      await side.create('second', second);
    },
  },
  {
    name: 'function',
    play: async side => {
      const tools = [lookUp];
      const called = await side.create('call', { input: CALL_LOOK_UP, tools });
      const previous_response_id = idOf(called);
      await side.create('result', { input: resultsFor(called), previous_response_id, tools });
    },
  },
  {
    name: 'function-by-hand',
    play: async side => {
      const tools = [lookUp];
      const called = await side.create('call', { input: CALL_LOOK_UP, tools, store: false });
      const output = Array.isArray(called.output) ? called.output : [];
      const input = [{ role: 'user', content: CALL_LOOK_UP }, ...output, ...resultsFor(called)];
      await side.create('result', { input, tools, store: false });
    },
  },
  {
    name: 'structured-output',
    play: async side => {
      const schema = {
        type: 'object',
        properties: { word: { type: 'string' } },
        required: ['word'],
        additionalProperties: false,
      };
      await side.create('first', {
        input: 'Answer with the JSON object {"word":"tide"}.',
        text: { format: { type: 'json_schema', name: 'answer', schema, strict: true } },
      });
    },
  },
  {
    name: 'mcp',
    needsMcp: true,
    play: async (side, { mcpUrl }) => {
      const tools = [mcp(mcpUrl, 'never')];
      const first = await side.create('first', { input: CALL_ECHO, tools });
      await side.create('second', { input: CALL_ECHO, previous_response_id: idOf(first), tools });
    },
  },
  ...[true, false].map(
    (approve): Scenario => ({
      name: approve ? 'approved' : 'denied',
      needsMcp: true,
      play: async (side, { mcpUrl }) => {
        const tools = [mcp(mcpUrl, 'always')];
        const asked = await side.create('ask', { input: CALL_ECHO, tools });
        const previous_response_id = idOf(asked);
        await side.create('decide', { input: decide(asked, approve), previous_response_id, tools });
      },
    }),
  ),
  {
    name: 'approved-by-hand',
    needsMcp: true,
    play: async (side, { mcpUrl }) => {
      const tools = [mcp(mcpUrl, 'always')];
      const asked = await side.create('ask', { input: CALL_ECHO, tools });
      const output = Array.isArray(asked.output) ? asked.output : [];
      const input = [{ role: 'user', content: CALL_ECHO }, ...output, ...decide(asked, true)];
      await side.create('decide', { input, tools });
    },
  },
  {
    name: 'mixed-turn',
    needsMcp: true,
    play: async (side, { mcpUrl }) => {
      const tools = [mcp(mcpUrl, 'never'), lookUp];
      const called = await side.create('call', { input: CALL_BOTH, tools });
      const previous_response_id = idOf(called);
      await side.create('result', { input: resultsFor(called), previous_response_id, tools });
    },
  },
  {
    name: 'stored',
    once: true,
    refusals: ['read-deleted'],
    play: async side => {
      const id = idOf(await side.create('create', { input: 'Say "hello".', metadata: { topic: 'tides' } }));
      await side.get('read', `/responses/${id}`);
      await side.get('items', `/responses/${id}/input_items`);
      await side.delete('delete', `/responses/${id}`);
      await side.get('read-deleted', `/responses/${id}`);
    },
  },
  {
    name: 'unstored',
    once: true,
    refusals: ['read', 'continue'],
    play: async side => {
      const id = idOf(await side.create('create', { input: 'Say "hello".', store: false }));
      await side.get('read', `/responses/${id}`);
      await side.create('continue', { input: 'Again.', previous_response_id: id });
    },
  },
  {
    name: 'errors',
    once: true,
    refusals: 'all',
    play: async (side, { mcpUrl }) => {
      const input = 'Say "hello".';
      await side.create('unknown-previous', { input, previous_response_id: 'resp_0000000000000000' });
      await side.create('unknown-item-type', { input: [{ type: 'nonsense' }] });
      await side.create('unknown-tool-type', { input, tools: [{ type: 'nonsense' }] });
      await side.create('bad-temperature', { input, temperature: 'warm' });
      await side.create('choice-without-tools', { input, tool_choice: 'required' });
      await side.create('orphan-output', {
        input: [{ type: 'function_call_output', call_id: 'call_none', output: 'x' }],
      });
      await side.create('orphan-approval', {
        input: [{ type: 'mcp_approval_response', approval_request_id: 'mcpr_none', approve: true }],
        tools: [mcp(mcpUrl, 'always')],
      });
      await side.create('duplicate-label', { input, tools: [mcp(mcpUrl, 'never'), mcp(mcpUrl, 'never')] });
      await side.post('no-model', '/responses', { input });
      await side.post('no-json', '/responses', '{');
      await side.get('unknown-response', '/responses/resp_0000000000000000');
    },
  },
];
