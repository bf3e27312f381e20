import { type Host, sleep } from '../../engine/host/host.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { describeSettled, type Open } from '../../engine/log/settled.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import { hashText } from '../../protocol/content/hash-text.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { listRunEventTypes, type RunEvent } from '../../protocol/event.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { isOpenItem, type OpenReview } from '../../protocol/run-view.ts';
import type { RunRecord, RunStatus, Store } from '../../protocol/store.ts';
import type { DeliveryContext, JournaledEvent, LastingListener } from './agent-listeners.ts';

/**
 * A topic of a webhook: `waiting` (a run waits for a decision), the status with which a run ended, or the type of a
 * journal event.
 */
export type WebhookTopic = Exclude<RunStatus, 'running'> | RunEvent['type'];

export const STATUS_TOPICS: readonly string[] = ['waiting', 'finished', 'failed', 'cancelled'];

/** The options of `webhook`. */
export type WebhookOptions = {
  /** The URL to which messages are posted. Redirects are not followed. */
  url: string;
  /** Signs the messages: `whsec_` and base64, or any text. */
  secret: string;
  /** The topics to send. Default: `waiting`. */
  on?: WebhookTopic | readonly WebhookTopic[];
  /** Default: the platform's. */
  fetch?: typeof fetch;
};

const NAMES = optionNames<WebhookOptions>()('url secret on fetch');

const REQUEST_MS = 15_000;
const BACK_OFF = { baseMs: 500, maxMs: 10 * 60_000 };

/** How long delivery is retried, in ms; much shorter if the receiver refuses, to delay no others. */
const UNAVAILABLE_MS = 24 * 60 * 60_000;
const REFUSED_MS = 60_000;

/** The number of remembered message ids, which prevent duplicate deliveries within a process. */
const MOST_SENT = 1_000;

/**
 * Returns a listener for `agent.on` that posts messages, by default when a run waits for a decision. Messages are
 * signed as in Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`. A message is retried until
 * the receiver answers 2xx, with growing pauses, for up to a day (a minute if it answers 4xx), also after restarts.
 * Each message is delivered at least once, in order, and keeps its `webhook-id`. Throws `agent-invalid`.
 *
 * @example
 * const off = agent.on(webhook({ url: 'https://example.com/hook', secret, on: ['waiting', 'failed'] }));
 */
export function webhook(options: WebhookOptions): LastingListener {
  refuseUnknownOptions('webhook', options, NAMES);
  const { url, secret, on = 'waiting', fetch: ask } = options;
  const topics = readTopics(typeof on === 'string' ? [on] : on);
  const address = readUrl(url);
  const sign = makeSigner(secret);
  const sent = new Set<string>();
  return {
    name: `webhook:${hashText([address, ...[...topics].sort()].join('\n')).slice(0, 32)}`,
    async deliver(event, run, context) {
      for (const notice of await noticesOf(event, run, topics, context.store)) {
        if (sent.has(notice.id)) continue;
        const isSent = await post(notice, context, { address, sign, ask: ask ?? fetch });
        if (isSent) remember(sent, notice.id);
      }
    },
  };
}

type Post = { address: string; sign: ReturnType<typeof makeSigner>; ask: typeof fetch };

/** Posts a message until the receiver accepts it. Returns false if stopped; throws when it gives up. */
async function post(notice: WebhookNotice, { host, signal }: DeliveryContext, way: Post): Promise<boolean> {
  const begunAt = host.now();
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const problem = await send(notice, host, signal, way);
    if (problem === null) return true;
    const patience = problem.isRefusal ? REFUSED_MS : UNAVAILABLE_MS;
    if (host.now() - begunAt > patience)
      throw new Error(`Gave up on ${notice.type} of ${notice.id} for a webhook: ${problem.message}`);
    await sleep(host, backOffMs(attempt, BACK_OFF, host.random()), signal, { keepAlive: false });
  }
  return false;
}

type Problem = { message: string; isRefusal: boolean };

async function send(
  { id, type, at, data }: WebhookNotice,
  host: Host,
  signal: AbortSignal,
  { address, sign, ask }: Post,
): Promise<Problem | null> {
  const body = JSON.stringify({ type, timestamp: new Date(at).toISOString(), data });
  const timestamp = Math.floor(host.now() / 1_000);
  try {
    const answer = await ask(address, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': await sign(id, timestamp, body),
      },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
    });
    await answer.body?.cancel();
    if (answer.ok) return null;
    return { message: `it answered ${answer.status}`, isRefusal: isRefusal(answer.status) };
  } catch (error) {
    return { message: messageOf(error), isRefusal: false };
  }
}

/** Whether a retry is unlikely to succeed: for statuses other than a timeout, a conflict or too many requests. */
function isRefusal(status: number): boolean {
  return status < 500 && status !== 408 && status !== 409 && status !== 425 && status !== 429;
}

function remember(sent: Set<string>, id: string): void {
  sent.add(id);
  const [oldest] = sent;
  if (sent.size > MOST_SENT && oldest !== undefined) sent.delete(oldest);
}

function readTopics(topics: readonly string[]): ReadonlySet<string> {
  const known = new Set([...STATUS_TOPICS, ...listRunEventTypes()]);
  const unknown = topics.find(topic => !known.has(topic));
  if (topics.length > 0 && unknown === undefined) return new Set(topics);
  throw new EngineError(
    'agent-invalid',
    `webhook() expects on to name ${STATUS_TOPICS.join(', ')} or types of events, such as tool.doubted; got ${unknown ?? 'nothing'}.`,
  );
}

function readUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && /^https?:$/.test(parsed.protocol) && parsed.username === '') return parsed.href;
  throw new EngineError('agent-invalid', 'webhook() expects an http or https URL without a password.');
}

const PREFIX = 'whsec_';

/**
 * Returns a function that signs a message: HMAC-SHA-256 over `ID.TIMESTAMP.BODY`, as `v1,BASE64`. A secret with the
 * prefix `whsec_` is decoded as base64; any other secret is used as UTF-8. Throws `agent-invalid` for an invalid
 * secret. Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
function makeSigner(secret: string): (id: string, timestamp: number, body: string) => Promise<string> {
  const bytes = readSecret(secret);
  const key = crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  key.catch(() => {});
  return async (id, timestamp, body) => {
    const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
    const signature = new Uint8Array(await crypto.subtle.sign('HMAC', await key, signed));
    return `v1,${btoa(String.fromCharCode(...signature))}`;
  };
}

function readSecret(secret: string): Uint8Array<ArrayBuffer> {
  if (typeof secret !== 'string' || secret === '' || secret === PREFIX)
    throw new EngineError(
      'agent-invalid',
      'webhook() needs a secret, such as whsec_ and 32 bytes in base64.',
    );
  if (!secret.startsWith(PREFIX)) return new TextEncoder().encode(secret);
  try {
    return Uint8Array.from(atob(secret.slice(PREFIX.length)), letter => letter.charCodeAt(0));
  } catch (cause) {
    const message = `The secret of webhook() is not base64 after ${PREFIX}.`;
    throw new EngineError('agent-invalid', message, null, { cause });
  }
}

/** A message of a webhook. Repeated deliveries have the same id. */
type WebhookNotice = { id: string; type: string; at: number; data: JsonObject };

const MOST_OPEN = 20;
const LONGEST_INPUT = 4_000;
const LONGEST_REASON = 1_000;

/** Returns the messages about an entry. A status counts once its entry is the last of the run. */
async function noticesOf(
  event: JournaledEvent,
  run: RunRecord,
  topics: ReadonlySet<string>,
  store: Store,
): Promise<WebhookNotice[]> {
  const { runId, seq, at, type } = event;
  const { status } = run;
  const make = (what: string, of: string, data: JsonObject): WebhookNotice => ({
    id: `msg_${hashText(`${runId}:${what}`).slice(0, 32)}`,
    type: of,
    at,
    data: { ...describeRun(run), seq, ...data },
  });
  const callId = 'callId' in event ? event.callId : undefined;
  const reviewId = 'reviewId' in event ? event.reviewId : undefined;
  const notices = topics.has(type) ? [make(String(seq), type, omitUndefined({ callId, reviewId }))] : [];
  if (run.seq !== seq || !topics.has(status)) return notices;
  const waits = status === 'waiting' ? await describeWaits(store, runId) : { key: '', data: {} };
  return waits === null ? notices : [...notices, make(`${status}:${waits.key}`, `run.${status}`, waits.data)];
}

function describeRun(run: RunRecord): JsonObject {
  const { runId, agent, title, labels, status, state, parent, turns, tokens, cost, errorCode } = run;
  const facts = { runId, agent, title, labels, status, state, turns, tokens, cost };
  return { ...facts, ...omitUndefined({ parent, errorCode }) };
}

/** What a run itself waits for, without its sub-agents; `null` for nothing. `key` identifies the set. */
async function describeWaits(store: Store, runId: string): Promise<{ data: JsonObject; key: string } | null> {
  const settled = describeSettled((await loadRun(store, runId)).state, text => text);
  if (settled?.status !== 'waiting') return null;
  const { open, paused } = settled;
  if (open.length === 0) return null;
  return {
    data: { open: open.slice(0, MOST_OPEN).map(describeOpen), paused },
    key: open.map(keyOf).join(),
  };
}

function keyOf(one: Open): string {
  if (!isOpenItem(one)) return one.id;
  const questions = one.kind === 'question' ? one.questions : [];
  return [one.id, one.digest, ...questions.map(({ key }) => key)].join(':');
}

function describeOpen({ reason, ...open }: Open): JsonObject {
  const why = omitUndefined({ reason: reason?.slice(0, LONGEST_REASON) });
  if (open.kind === 'pause' || open.kind === 'sign-in') return { ...open, ...why };
  if (open.kind === 'review') return describeReview(open, why);
  const isLong = JSON.stringify(open.input).length > LONGEST_INPUT;
  const shown = isLong ? { inputOmitted: true } : { input: toJson(open.input) };
  if (open.kind === 'question') {
    const { input: _, questions, ...facts } = open;
    const isShort = JSON.stringify(questions).length <= LONGEST_INPUT;
    return { ...facts, ...why, ...shown, ...(isShort ? { questions } : { questionsOmitted: true }) };
  }
  const { input: _, '~answer': __, ...facts } = open;
  return { ...facts, ...why, ...shown };
}

function describeReview({ answer, output, reason: _, ...facts }: OpenReview, why: JsonObject): JsonObject {
  if (answer.length > LONGEST_INPUT) return { ...facts, ...why, answerOmitted: true };
  return { ...facts, ...why, answer, ...omitUndefined({ output }) };
}
