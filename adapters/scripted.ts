import type { ModelAdapter } from '../protocol/adapter.ts';
import { ProviderError, type ProviderErrorDetails } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ModelRequest, ModelTurn, ToolCall, TurnDelta } from '../protocol/turn.ts';
import { classifyFailure, isRetryable, readErrorBody } from './http/provider-errors.ts';
import {
  countTurns,
  loadScript,
  type PlayedTurn,
  parseScript,
  type Script,
  type ScriptedError,
  type ScriptedTurn,
  UNNAMED,
  usageIn,
} from './scripted/scripted-turns.ts';
import { collectTurn } from './streams.ts';
import { toolCall } from './turn/tool-calls.ts';
import { TurnBuilder } from './turn/turn-builder.ts';
import { deltasUpTo } from './turn/turn-deltas.ts';

export type { ScriptedError, ScriptedTurn } from './scripted/scripted-turns.ts';

/** Resolves after `ms` milliseconds; rejects when the signal aborts. */
export type Wait = (ms: number, signal: AbortSignal) => Promise<void>;

/** `delayScale` multiplies every `delayMs` and overrides the script's own value. `wait` replaces the timer. */
type Pace = { delayScale?: number; wait?: Wait };
/** The turns of a script, or a script file, with optional pacing. */
export type ScriptedOptions =
  | readonly ScriptedTurn[]
  | ({ turns: readonly ScriptedTurn[] } & Pace)
  | ({ file: string } & Pace);

const NAMES = optionNames<Exclude<ScriptedOptions, readonly ScriptedTurn[]>>()('turns file delayScale wait');

/**
 * Creates a model that plays a script, for tests, demos and reproductions. The next turn is derived from the
 * transcript alone (see `countTurns`), so a run can continue in another process. A `separate` answer plays the entry after
 * its draft, or the draft again if that was the last. Only the failures of an
 * error with `times` are counted in the adapter. An entry with `error` but without text, reasoning, calls or
 * finish reason fails before the next entry. Throws an `EngineError` `script-invalid`.
 *
 * @example
 * const model = scripted([
 *   { toolCalls: [{ name: 'get_weather', arguments: { city: 'Paris' } }] },
 *   { text: 'It is sunny in Paris.' },
 * ]);
 */
export function scripted(options: ScriptedOptions): ModelAdapter {
  if (!('length' in options)) refuseUnknownOptions('scripted', options, NAMES);
  const script = scriptOf(options);
  const pace: Pace = 'length' in options ? {} : options;
  const scale = pace.delayScale ?? script.delayScale;
  const wait = pace.wait ?? delay;
  const steps = stepsOf(script.turns);
  const thrown = new Map<ScriptedError, number>();

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<TurnDelta, void> {
    const count = countTurns(request.transcript, PROVIDER);
    const at = request.afterDraft && steps[count + 1] !== undefined ? count + 1 : count;
    const step = steps[at];
    const failure = step?.failures.find(({ error }) => (thrown.get(error) ?? 0) < (error.times ?? Infinity));
    if (failure) {
      thrown.set(failure.error, (thrown.get(failure.error) ?? 0) + 1);
      await pause(failure.delayMs * scale, signal);
      throw scriptedFailure(script, failure.error);
    }
    if (!step?.turn) throw exhausted(script, steps, at);
    const deltas = splitDeltas(playTurn(step.turn, at, request, { provider: PROVIDER, model: script.name }));
    const delayMs = (step.turn.delayMs ?? 0) * scale;
    const perPause = Math.ceil(deltas.length / Math.max(1, Math.floor(delayMs / SHORTEST_PAUSE_MS)));
    const pauses = Math.ceil(deltas.length / perPause);
    for (const [index, delta] of deltas.entries()) {
      if (index % perPause === 0) await pause(delayMs / pauses, signal);
      yield delta;
    }
  }

  async function pause(ms: number, signal: AbortSignal): Promise<void> {
    try {
      if (ms > 0) await wait(ms, signal);
      signal.throwIfAborted();
    } catch (cause) {
      if (!signal.aborted) throw cause;
      throw failed(script, 'The call to the scripted model was aborted.', { code: 'aborted' });
    }
  }

  return {
    provider: PROVIDER,
    model: script.name,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: false,
      serverTools: false,
      structuredOutput: 'instructions',
      continuation: false,
      usage: 'unknown',
    },
    generate: (request, { signal }) => collectTurn(stream(request, signal)),
    stream: (request, { signal }) => stream(request, signal),
  };
}

const delay: Wait = (ms, signal) =>
  new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });

const PROVIDER = 'scripted';
const SHORTEST_PAUSE_MS = 10;

function scriptOf(options: ScriptedOptions): Script {
  if ('length' in options) return parseScript(options);
  return 'file' in options ? loadScript(options.file) : parseScript(options.turns);
}

/** A turn with the errors that precede it. The last step has no turn if the script ends with errors. */
type Step = { failures: { error: ScriptedError; delayMs: number }[]; turn: PlayedTurn | undefined };

function stepsOf(turns: readonly PlayedTurn[]): Step[] {
  const steps: Step[] = [];
  let failures: Step['failures'] = [];
  for (const turn of turns) {
    if (turn.error) failures.push({ error: turn.error, delayMs: turn.delayMs ?? 0 });
    if (turn.error && !hasContent(turn)) continue;
    steps.push({ failures, turn });
    failures = [];
  }
  return failures.length > 0 ? [...steps, { failures, turn: undefined }] : steps;
}

function hasContent({ text, reasoning, toolCalls, finishReason }: PlayedTurn): boolean {
  return [text, reasoning, toolCalls, finishReason].some(part => part !== undefined);
}

function scriptedFailure(script: Script, error: ScriptedError): ProviderError {
  const status = error.status ?? null;
  const code = error.code ?? classifyFailure(status, readErrorBody(error.message ?? ''));
  return failed(script, error.message ?? `${nameOf(script)} says: ${code}.`, {
    code,
    status,
    retryable: error.retryable ?? isRetryable(code),
    retryAfterMs: error.retryAfterMs ?? null,
  });
}

function exhausted(script: Script, steps: readonly Step[], at: number): ProviderError {
  const turns = steps.filter(step => step.turn).length;
  const message =
    turns === 0
      ? `${nameOf(script)} has no turns. Add one.`
      : `${nameOf(script)} has ${turns} ${turns === 1 ? 'turn' : 'turns'}, and the transcript already has ${at}. Add a turn to the script.`;
  return failed(script, message, { code: 'script-exhausted' });
}

/** Only a script of a file has a name. */
function nameOf({ name }: Script): string {
  return name === UNNAMED ? 'The script' : `The script ${name}`;
}

function failed(
  script: Script,
  message: string,
  details: Pick<ProviderErrorDetails, 'code'> & Partial<ProviderErrorDetails>,
): ProviderError {
  return new ProviderError(message, { provider: PROVIDER, model: script.name, ...details });
}

const ONLY_CALLS = 'The script has only tool calls for this turn, and tools are off.';

/** With `toolChoice: 'none'` calls are omitted, with a text if nothing else is left. Items have `at`, to be counted. */
function playTurn(
  turn: PlayedTurn,
  at: number,
  request: ModelRequest,
  { provider, model }: { provider: string; model: string },
): ModelTurn {
  const toolsOff = request.toolChoice === 'none';
  const toolCalls = toolsOff ? [] : callsOf(turn, at, request);
  const dropped = toolsOff && (turn.toolCalls?.length ?? 0) > 0;
  const text = turn.text ?? (dropped ? ONLY_CALLS : '');
  const reasoning = turn.reasoning ?? '';
  const opaque = { provider, data: { turn: at } };
  const built = new TurnBuilder(request);
  if (reasoning !== '') built.addReasoning(reasoning, opaque);
  if (text !== '') built.addText(text, opaque);
  for (const call of toolCalls) built.addCall(call, opaque);
  if (built.items.length === 0) built.addProviderItem('empty_turn', opaque);
  const fallback = toolCalls.length > 0 ? 'tool_calls' : 'stop';
  const finishReason =
    dropped && turn.finishReason === 'tool_calls' ? fallback : (turn.finishReason ?? fallback);
  return built.turn({ finishReason, usage: usageIn(turn), model });
}

/** Call ids are derived from the turn's number and the call's position. */
function callsOf(turn: PlayedTurn, at: number, request: ModelRequest): ToolCall[] {
  const taken = new Set(request.transcript.map(item => (item.type === 'tool_call' ? item.callId : '')));
  return (turn.toolCalls ?? []).map((call, index) => {
    let callId = `call_${at}_${index}`;
    while (taken.has(callId)) callId += '_';
    const written = call.arguments ?? {};
    return toolCall(callId, call.name, typeof written === 'string' ? written : JSON.stringify(written));
  });
}

function splitDeltas(turn: ModelTurn): TurnDelta[] {
  return [...deltasUpTo(turn)].flatMap<TurnDelta>(delta => {
    if (delta.type === 'call_started')
      return [{ ...delta, ...omitUndefined({ callId: turn.toolCalls[delta.index]?.callId }) }];
    if (delta.type === 'turn' || delta.type === 'reasoning_ended') return [delta];
    return (delta.text.match(PIECE) ?? []).map(text => ({ ...delta, text }));
  });
}

/** Up to 24 characters of a word with the space before it. Never splits a surrogate pair. */
const PIECE = /\s*\S{1,24}|\s+/gu;
