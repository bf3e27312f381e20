import type { JsonObject } from '../../../protocol/json.ts';
import { BUSY, call, callCustom, made, type PlayedTurn, say, think, turn } from './provider.ts';
import { SCENARIOS } from './scenarios.ts';
import type { Scenario } from './stage.ts';

/** A conversation with the gateway. Its client answers each call with a text, and each approval with `approve`. */
export type Asked = {
  about: string;
  turns: Scenario['turns'];
  model?: 'gpt' | 'claude';
  /** The tools of a request to the Responses API; by default, functions of the client. */
  tools?: JsonObject[];
  approve?: boolean;
  /** Further members of the first request of each protocol. */
  more?: JsonObject;
  chat?: JsonObject;
  messages?: JsonObject;
  /** Of the gateway. */
  config?: JsonObject;
  only?: readonly ('responses' | 'chat-completions' | 'messages')[];
};

/** Runs of agents whose turns a gateway shows too. The tools are the client's. */
const SHARED = [
  'plain-text',
  'reasoning-and-text',
  'several-texts',
  'interleaved',
  'sealed-reasoning',
  'preamble-and-call',
  'parallel-calls',
  'rounds',
  'text-after-call',
  'same-call-id',
  'final-differs',
  'refusal',
  'refusal-after-text',
  'image',
  'length',
  'length-in-call',
  'content-filter',
  'empty-turn',
  'retried-text',
  'retried-call',
  'retried-twice',
  'failed-run',
  'tool-errors',
  'late-reader',
];

/** Our attempts, also where the client would make them. */
const RETRIED = { config: { max_attempts: { 'openai:gpt': 3 } } };

const shared = Object.fromEntries(
  Object.entries(SCENARIOS).flatMap(([name, { about, turns }]): [string, Asked][] =>
    SHARED.includes(name) ? [[name, { about, turns, ...(/^retried/.test(name) && RETRIED) }]] : [],
  ),
);

const MCP = { mcp_servers: { desk: { url: 'https://provider.example/mcp' } } };
const HIDDEN = { mcp_servers: { desk: { url: 'https://provider.example/mcp', hidden: true } } };
const DESK = { type: 'mcp', server_label: 'desk' };
const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };
const echo = (text: string, callId?: string) => call('echo', { text }, callId);
const only = ['responses'] as const;
const DONE = turn(say('All done.'));

const byClaude = (about: string, more: Partial<Asked>, ...turns: JsonObject[][]): Asked => ({
  about,
  model: 'claude',
  turns: { 'claude-sonnet-4-5': turns.map((blocks): PlayedTurn => ({ blocks })) },
  ...more,
});

const SEARCHED: JsonObject[] = [
  { type: 'text', text: 'I search. ' },
  { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'cats' } },
  {
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: [
      {
        type: 'web_search_result',
        url: 'https://cats.example/',
        title: 'Cats',
        encrypted_content: 'c2VhbGVk',
      },
    ],
  },
  {
    type: 'text',
    text: 'Cats purr.',
    citations: [
      {
        type: 'web_search_result_location',
        url: 'https://cats.example/',
        title: 'Cats',
        encrypted_index: 'aW5kZXg=',
        cited_text: 'They purr.',
      },
    ],
  },
];

const own: Readonly<Record<string, Asked>> = {
  busy: { about: 'The provider is overloaded.', turns: [BUSY, BUSY, BUSY] },
  'web-search': {
    about: 'The provider searches the web, and the text cites a page.',
    turns: SCENARIOS['web-search']?.turns ?? [],
    tools: [{ type: 'web_search' }],
    more: { include: ['web_search_call.action.sources'] },
    chat: { web_search_options: {} },
    only: ['responses', 'chat-completions'],
  },
  compaction: {
    about: 'The provider compacts the conversation before it answers.',
    turns: SCENARIOS.compaction?.turns ?? [],
    only,
  },
  'included-reasoning': {
    about: 'The client asks for sealed reasoning, and stores nothing.',
    turns: [turn(think('Readable thoughts.', 'c2VhbGVk'), think('', 'c2VjcmV0'), say('The answer.'))],
    more: { store: false, include: ['reasoning.encrypted_content'] },
    only,
  },
  'mcp-calls': {
    about: "The model calls a server's tools, one of which fails, and the client's.",
    turns: [
      turn(say('I look.'), echo('one'), call('fail', { text: 'two' }), call('ask', { text: 'three' })),
      turn(think('Hm.'), echo('again', 'call_again')),
      DONE,
    ],
    tools: [{ ...DESK, require_approval: 'never' }, ASK],
    config: MCP,
    only,
  },
  'mcp-approved': {
    about: "The client approves calls of a server's tool.",
    turns: [turn(say('May I?'), echo('one'), echo('two', 'call_two')), DONE],
    tools: [{ ...DESK, require_approval: 'always' }],
    config: MCP,
    only,
  },
  'mcp-rejected': {
    about: "The client rejects a call of a server's tool.",
    turns: [turn(echo('one')), turn(say('Then not.'))],
    tools: [{ ...DESK, require_approval: 'always' }],
    approve: false,
    config: MCP,
    only,
  },
  'hidden-server': {
    about: 'The model calls the tools of a hidden server, with texts around them.',
    turns: [turn(think('Hm.'), say('I look.'), echo('one')), turn(echo('two', 'call_two')), DONE],
    config: HIDDEN,
  },
  'hidden-and-own': {
    about: "The model calls a hidden server's tool and the client's in one turn.",
    turns: [turn(say('I look.'), echo('one'), call('look', { a: 1 })), DONE],
    config: HIDDEN,
  },
  'custom-tool': {
    about: 'The model calls a custom tool.',
    turns: [turn(say('I patch.'), callCustom('patch', '*** "quoted"\n+ line')), DONE],
    tools: [{ type: 'custom', name: 'patch', description: 'Applies a patch.' }],
    chat: { tools: [{ type: 'custom', custom: { name: 'patch', description: 'Applies a patch.' } }] },
    only: ['responses', 'chat-completions'],
  },
  'code-interpreter': {
    about: 'The provider runs code.',
    turns: [
      turn(
        made({ type: 'code_interpreter_call', code: '6 * 7', container_id: 'c1', outputs: null }),
        say('42.'),
      ),
    ],
    tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
    only,
  },
  background: {
    about: 'A response in the background.',
    turns: [turn(think('Hm.'), say('Later.'))],
    more: { background: true },
    only,
  },
  'max-tool-calls': {
    about: 'The limit of tool calls of a request is reached.',
    turns: [turn(echo('one'), echo('two', 'call_two')), turn(say('Enough.'))],
    tools: [{ ...DESK, require_approval: 'never' }],
    more: { max_tool_calls: 1 },
    config: MCP,
    only,
  },
  'claude-thinks': byClaude(
    'Another provider thinks, also out of sight, and calls a tool.',
    { messages: { thinking: { type: 'enabled', budget_tokens: 2_000 } } },
    [
      { type: 'thinking', thinking: 'I think so.', signature: 'c2lnbmVk' },
      { type: 'redacted_thinking', data: 'cmVkYWN0ZWQ=' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 'toolu_1', name: 'look', input: { what: 'a thing' } },
    ],
    [{ type: 'text', text: 'Seen.' }],
  ),
  'claude-searches': byClaude(
    'Another provider searches the web, and cites a page.',
    {
      tools: [{ type: 'web_search' }],
      chat: { web_search_options: {}, tools: [] },
      messages: { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
    },
    SEARCHED,
  ),
};

export const ASKED: Readonly<Record<string, Asked>> = { ...shared, ...own };
