/**
 * A loop of tool calls is one run, also in protocols without ids of responses, whose clients send the whole history with
 * each request. That history lacks what providers need back with a call, such as Gemini's thought signatures, and it
 * lacks the calls of hidden servers. The run that waits for the results has all of it.
 *
 * So the id of a call names its response and the history before it, and a request that answers the calls with the same
 * history continues the run. With any other history, and for other ids, a new run starts from the messages.
 *
 * A text has no id. If this process has given the last text as its answer to the same history, and the answer is stored,
 * the next run continues the run of that answer: the store then has the history once.
 *
 * In the Responses API the same holds for requests with `store: false`: there the id of the item names the run, whose
 * journal has the digest of the history.
 *
 * The id of a call ends with the provider's own, under which a new run sends the call back: a provider recognizes a
 * conversation that it has cached, and thinking that is bound to it, only by the ids that it knows.
 */
import type { Caller } from '../../../access/caller.ts';
import { digestOf } from '../../../protocol/content/digest.ts';
import { hashText } from '../../../protocol/content/hash-text.ts';
import { omitUndefined, toJson } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import { oncePer } from '../../../protocol/once-per.ts';
import { remember } from '../../remember.ts';
import { isAsyncCall, isSameCall } from '../answer/answer-event.ts';
import { readItemId, readResponseId } from '../answer/wire-ids.ts';
import { isReceiptItem } from '../plan/client-work.ts';
import { isOfModel } from '../plan/input-items.ts';
import type { GatewayRequest, InputItem, SentItem } from '../request/gateway-request.ts';
import { eventsOf, type FoundResponse, type VisibleResponses } from './response-library.ts';
import { isCustomTool } from './response-spec.ts';

type ClientCall = { callId: string; isCustom: boolean; name: string; arguments: string };

/** Names a call of a response. `place` counts them from 0; `callId` is the provider's. */
export type NameCall = (responseId: string, place: number, callId: string) => string;

/** `prefix` is the protocol's, such as `call_`. */
export function callNamer(prefix: string, input: readonly InputItem[]): NameCall {
  let history: string | undefined;
  return (responseId, place, callId) => {
    history ??= digestOfHistory(input);
    const named = `${prefix}${responseId.replace(/^resp_/, '')}_${place}_${history}`;
    return /^[A-Za-z0-9_-]{1,64}$/.test(callId) ? `${named}_${callId}` : named;
  };
}

type LibraryFor = (ownRunId: string | undefined) => VisibleResponses;

type Continuation = { request: GatewayRequest; runId: string };

type NamedCall = { responseId: string; place: number; history: string; callId: string | undefined };

function readCallId(id: string): NamedCall | undefined {
  const [, key, place, history = '', callId] =
    /^[a-z]+_([A-Za-z0-9]+(?:_\d+)?)_(\d{1,4})_([0-9a-f]{12})(?:_([A-Za-z0-9_-]{1,64}))?$/.exec(id) ?? [];
  return key === undefined ? undefined : { responseId: `resp_${key}`, place: Number(place), history, callId };
}

/** The request with the provider's ids of its calls, except calls that would have the same id then, and with the runs that made them. */
export function withProviderIds(request: GatewayRequest): GatewayRequest {
  const calls = new Set(
    request.input.flatMap(item => (item.type === 'sent' ? callsIn(item).map(({ callId }) => callId) : [])),
  );
  const byOwn = Map.groupBy(calls, id => readCallId(id)?.callId ?? id);
  const ids = new Map(
    [...byOwn].flatMap(([own, [id, ...others]]) => (id && others.length === 0 ? [[id, own]] : [])),
  );
  return {
    ...request,
    input: request.input.map(item => {
      if (item.type !== 'sent') return item;
      const [call] = callsIn(item);
      const madeIn = call && readResponseId(readCallId(call.callId)?.responseId ?? '')?.runId;
      return { ...withIds(item, ids), ...omitUndefined({ madeIn }) };
    }),
  };
}

function digestOfHistory(input: readonly InputItem[]): string {
  return hashOfHistory(input).slice(0, 12);
}

function hashOfHistory(input: readonly InputItem[]): string {
  return hashText(input.map(digestOfItem).join());
}

const digestOfItem = oncePer((item: InputItem) => digestOf(toJson(item.type === 'sent' ? item.items : item)));

/**
 * The request as one that continues a run, which may be one that is not stored: who has the id of a call and the history
 * before it has made them. `undefined` if this history or the calls themselves are not the run's.
 */
export async function continuationOf(
  request: GatewayRequest,
  libraryFor: LibraryFor,
  /** The response to a history, if this process knows it. */
  answerTo: (history: readonly InputItem[]) => string | undefined,
): Promise<Continuation | undefined> {
  if (isWithoutResponses(request)) return await continuationByItem(request, libraryFor);
  const { input, answered = { from: 0, to: 0 } } = request;
  const asked = input.slice(answered.from, answered.to).filter(item => item.type === 'sent');
  const calls = asked.flatMap(callsIn);
  if (calls.length === 0 && asked.length > 0) {
    const responseId = answerTo(input.slice(0, answered.from));
    return responseId === undefined
      ? undefined
      : await continuationAfter(request, responseId, { asked, libraryFor });
  }
  const named = readCallId(calls[0]?.callId ?? '');
  if (named === undefined || named.history !== digestOfHistory(input.slice(0, answered.from)))
    return undefined;
  const found = await libraryFor(readResponseId(named.responseId)?.runId).find(named.responseId);
  if (found === undefined) return undefined;
  const made = givenIn(found);
  if (!isSaid(asked, made.text)) return undefined;
  const ids = new Map<string, string>();
  for (const call of calls) {
    const place = readCallId(call.callId);
    const known = place?.responseId === named.responseId ? made.calls[place.place] : undefined;
    if (known === undefined || !isSameKind(known, call)) return undefined;
    ids.set(call.callId, known.callId);
  }
  if (ids.size !== made.calls.length) return undefined;
  const answers = input.slice(answered.to).map(item => (item.type === 'sent' ? withIds(item, ids) : item));
  const continued = { ...request, input: answers, previousResponseId: named.responseId };
  return { request: continued, runId: found.run.runId };
}

/** The request as one that continues the run of `responseId`; `undefined` if the last text is not its answer. */
async function continuationAfter(
  request: GatewayRequest,
  responseId: string,
  { asked, libraryFor }: { asked: readonly SentItem[]; libraryFor: LibraryFor },
): Promise<Continuation | undefined> {
  const found = await libraryFor(undefined).find(responseId);
  if (found === undefined || found.span.to === null) return undefined;
  const { text, calls } = givenIn(found);
  if (text === '' || calls.length > 0 || withoutSpace(saidIn(asked)) !== withoutSpace(text)) return undefined;
  const input = request.input.slice(request.answered?.to);
  return { request: { ...request, input, previousResponseId: responseId }, runId: found.run.runId };
}

/** Which stored response of this process answers which history, for clients whose texts have no ids. */
export class AnsweredHistories {
  readonly #responses = new Map<string, string>();

  note({ api, store, input }: GatewayRequest, caller: Caller, responseId: string): void {
    if (api === 'responses' || store === false) return;
    remember(this.#responses, keyOf(caller, input), responseId, MOST_HISTORIES);
  }

  find(history: readonly InputItem[], caller: Caller): string | undefined {
    return this.#responses.get(keyOf(caller, history));
  }
}

const MOST_HISTORIES = 10_000;

function keyOf({ name }: Caller, history: readonly InputItem[]): string {
  return `${hashOfHistory(history)} ${name}`;
}

/** Of a request that a later one may continue with its whole history: its digest. */
export function historyOf(request: GatewayRequest): { history?: string } {
  return isWithoutResponses(request) ? { history: digestOfHistory(request.input) } : {};
}

/** A request to the Responses API that neither refers to a response nor becomes one. */
function isWithoutResponses({ api, store, previousResponseId, conversation }: GatewayRequest): boolean {
  return (
    api === 'responses' && store === false && previousResponseId === undefined && conversation === undefined
  );
}

async function continuationByItem(
  request: GatewayRequest,
  libraryFor: LibraryFor,
): Promise<Continuation | undefined> {
  const { input } = request;
  const to = input.findLastIndex(item => item.type === 'sent' && callsIn(item).length > 0) + 1;
  const from =
    input.slice(0, to).findLastIndex(item => item.type !== 'sent' || !item.items.some(isOfModel)) + 1;
  const runId = readItemId(input[to - 1]?.id ?? '')?.runId;
  const run = runId === undefined ? undefined : await libraryFor(runId).load(runId);
  const span = run?.spans.at(-1);
  if (run === undefined || span === undefined || span.deleted) return undefined;
  const { history, request: before } = span.spec;
  // Another model may have other names for the tools of earlier calls.
  if (history !== digestOfHistory(input.slice(0, from)) || before.model !== request.model) return undefined;
  const asked = input.slice(from, to).filter(item => item.type === 'sent');
  const calls = asked.flatMap(callsIn);
  const made = givenIn({ run, span });
  const isMade = (call: ClientCall) =>
    made.calls.some(known => known.callId === call.callId && isSameKind(known, call));
  if (!isSaid(asked, made.text) || calls.length !== made.calls.length || !calls.every(isMade))
    return undefined;
  return { request: { ...request, input: input.slice(to), previousResponseId: span.id }, runId: run.runId };
}

/** A streamed text begins with the texts of failed attempts, which are not stored. */
function isSaid(asked: readonly SentItem[], text: string): boolean {
  const said = saidIn(asked);
  return said === '' || withoutSpace(said).endsWith(withoutSpace(text));
}

function saidIn(asked: readonly SentItem[]): string {
  return asked.flatMap(({ items, ranHere }) => (ranHere ? [] : items.map(textOf))).join('');
}

function callsIn({ items, tool, ranHere }: SentItem): ClientCall[] {
  const isCustom = isCustomTool(tool);
  return ranHere === true || items.some(isReceiptItem)
    ? []
    : items.flatMap(item => (item.type === 'tool_call' ? [{ ...item, isCustom }] : []));
}

function givenIn(found: FoundResponse): { text: string; calls: ClientCall[] } {
  const events = eventsOf(found);
  return {
    text: events
      .map(event => (event.type === 'closed' && event.kind === 'message' ? event.text : ''))
      .join(''),
    calls: events.flatMap(event =>
      event.type === 'call.given' && !isAsyncCall(event.call)
        ? [{ ...event.call, isCustom: event.as === 'custom_tool_call' }]
        : [],
    ),
  };
}

function withIds(sent: SentItem, ids: ReadonlyMap<string, string>): SentItem {
  const items = sent.items.map(item =>
    'callId' in item ? { ...item, callId: ids.get(item.callId) ?? item.callId } : item,
  );
  return { ...sent, items };
}

/** Protocols join the texts of a response differently. */
function withoutSpace(text: string): string {
  return text.replaceAll(/\s/g, '');
}

function isSameKind(one: ClientCall, other: ClientCall): boolean {
  return one.isCustom === other.isCustom && isSameCall(one, other);
}
