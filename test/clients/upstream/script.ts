import { objectOf } from '../../../adapters/turn/json-access.ts';
import type { InputItem } from '../../../examples/stand-in/request.ts';
import type { WrittenTurn } from '../../../examples/stand-in/wire/turn.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { compactionOf, countTurns } from './wires.ts';

export type WireName = 'openai' | 'openai-chat' | 'anthropic' | 'gemini' | 'deepseek' | 'ollama';

/** What a request asks of the model, on any wire. */
export type ModelRequest = {
  wire: WireName;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: JsonObject;
  instructions: string;
  items: readonly InputItem[];
  tools: readonly OfferedTool[];
};

/** `type` is `function`, `custom` for a tool whose input is a text, or `tool_search`. */
export type OfferedTool = { name: string; type: string; namespace?: string };

type OrFrom<Value> = Value | ((request: ModelRequest) => Value);

/** A call of a tool that the request offers. */
export type ScriptedCall = {
  /** The tool's name, or the end of it. */
  tool: string;
  /** An object, or the text of a custom tool, which a function gets as `{ input }`. */
  input: OrFrom<JsonObject | string>;
};

/** What happens the first times that a turn is asked for. Nothing of it is paid. */
type Trouble =
  | { type: 'status'; status: 429 | 503 | 529; retryAfterS?: number; times: number }
  /** Half of the stream, then silence until the client leaves. */
  | { type: 'hang'; times: number };

export type ScriptedTurn = {
  text?: string;
  /** A text, or `sealed`: the provider's data without a text. */
  reasoning?: { text: string } | 'sealed';
  calls?: readonly ScriptedCall[];
  usage?: NonNullable<WrittenTurn['usage']>;
  trouble?: Trouble;
};

/**
 * The turns of one conversation. Which one is next follows from the request alone, so that a repeated request gets the
 * same turn: `at` says how many there were. Without `at` it is the number of the model's turns; where a client may keep
 * what an interrupted turn said, `countRounds` counts only those with calls.
 */
export type Script = {
  name: string;
  /** Whether the script answers a request. Without it: each request that offers tools. */
  takes?: (request: ModelRequest) => boolean;
  at?: (items: readonly InputItem[]) => number;
  turns: readonly OrFrom<ScriptedTurn>[];
};

/** Answers what no script takes, such as the request for a title of a session. */
const ASIDE: Script = { name: 'aside', takes: () => true, turns: [] };

/** Returns the script of a request, the place of its next turn, and that turn. */
export function findTurn(
  scripts: readonly Script[],
  request: ModelRequest,
): { script: Script; at: number; turn: ScriptedTurn } {
  const takes = (script: Script) => script.takes?.(request) ?? request.tools.length > 0;
  const script = scripts.find(takes) ?? ASIDE;
  const at = (script.at ?? countTurns)(request.items);
  const turn = script.turns[at];
  if (script === ASIDE) return { script, at, turn: { text: 'A title' } };
  if (turn === undefined) throw new RangeError(`the script "${script.name}" has no turn ${at}`);
  return { script, at, turn: from(turn, request) };
}

/** Writes a turn down: its calls as those of the tools that the request offers. */
export function writeTurn(
  turn: ScriptedTurn,
  request: ModelRequest,
  { name, signature }: { name: string; signature: string },
): WrittenTurn {
  const { text = '', reasoning, calls = [] } = turn;
  const written = calls.map((call, index) => writeCall(call, request, `call_${name}_${index}`));
  const input = Math.ceil(JSON.stringify(request.body).length / 4);
  const model = typeof request.body.model === 'string' ? request.body.model : 'stand-in';
  return {
    model,
    reasoning: typeof reasoning === 'object' ? reasoning.text : '',
    text,
    calls: written.map(({ id, name, arguments: given }) => ({ id, name, arguments: given })),
    finish: 'stop',
    usage: turn.usage ?? { input, output: 20, cached: 0, reasoning: reasoning === undefined ? 0 : 5 },
    ...(reasoning !== undefined && { signature }),
    ...(written.some(isSpecial) && { output: itemsOf(turn, written, signature) }),
    ...(asksToCompact(request) && { output: [compactionOf(text)] }),
  };
}

/** Whether the answer has to be an item of the Responses API that stands for the conversation. */
function asksToCompact({ body: { input } }: ModelRequest): boolean {
  return Array.isArray(input) && objectOf(input.at(-1)).type === 'compaction_trigger';
}

type Written = { id: string; name: string; arguments: string } & Pick<OfferedTool, 'type' | 'namespace'>;

function writeCall({ tool, input }: ScriptedCall, request: ModelRequest, id: string): Written {
  const offered =
    request.tools.find(({ name }) => name === tool) ?? request.tools.find(({ name }) => name.endsWith(tool));
  if (offered === undefined) {
    const names = request.tools.map(({ name }) => name).join(', ');
    throw new RangeError(`the script calls "${tool}", and the request offers ${names || 'no tools'}`);
  }
  const given = from(input, request);
  const custom = offered.type === 'custom';
  if (custom && typeof given !== 'string') throw new RangeError(`the tool "${offered.name}" takes a text`);
  const asFunction = typeof given === 'string' ? JSON.stringify({ input: given }) : JSON.stringify(given);
  return { id, ...offered, arguments: custom ? String(given) : asFunction };
}

/** Whether the call is more than one of a function. */
function isSpecial({ type, namespace }: OfferedTool): boolean {
  return type !== 'function' || namespace !== undefined;
}

/** The items of a turn of the Responses API that calls such tools. */
function itemsOf({ text = '', reasoning }: ScriptedTurn, calls: readonly Written[], signature: string) {
  const items: JsonObject[] = [];
  if (reasoning !== undefined) {
    const summary = reasoning === 'sealed' ? [] : [{ type: 'summary_text', text: reasoning.text }];
    items.push({ type: 'reasoning', id: 'rs_1', summary, encrypted_content: signature });
  }
  if (text !== '') {
    const content = [{ type: 'output_text', text, annotations: [] }];
    items.push({ type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content });
  }
  for (const [index, call] of calls.entries())
    items.push({ id: `call_${index}`, call_id: call.id, status: 'completed', ...membersOf(call) });
  return items;
}

function membersOf({ type, name, namespace, arguments: written }: Written): JsonObject {
  const named = { name, ...omitUndefined({ namespace }) };
  switch (type) {
    case 'custom':
      return { type: 'custom_tool_call', ...named, input: written };
    case 'tool_search':
      return { type: 'tool_search_call', execution: 'client', arguments: JSON.parse(written) };
    default:
      return { type: 'function_call', ...named, arguments: written };
  }
}

function from<Value>(value: OrFrom<Value>, request: ModelRequest): Value {
  return typeof value === 'function' ? (value as (request: ModelRequest) => Value)(request) : value;
}
