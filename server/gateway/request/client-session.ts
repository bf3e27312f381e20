import { arrayOf, objectOf } from '../../../adapters/turn/json-access.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { Labels } from '../../../protocol/listing/label.ts';
import { fitId } from './shared-parameters.ts';

/**
 * The session of an agent that sends requests, as it names it: all requests of one conversation with a person have the
 * same. `thread`: a sub-agent's, or `side`: tasks without tools, such as a title; neither is in that conversation.
 */
export type ClientSession = { id: string; thread?: string };

/** UUIDs, and ids such as `ses_4f1a`. Anything else counts as absent. */
const ID = /^[\w.:-]{1,128}$/;

/**
 * The session that a request belongs to, in the words of the agents that send one: Codex, Claude Code, opencode and pi.
 * A `prompt_cache_key` names none: applications use one for all their requests.
 */
export function readSession(headers: Headers, body: unknown): { session?: ClientSession } {
  const { client_metadata: codex, metadata: claude, tools } = isJsonObject(body) ? body : {};
  const { session_id, thread_id } = objectOf(codex);
  const sent = (...names: string[]) => names.map(name => headers.get(name) ?? undefined);
  const own = firstId([
    session_id,
    ...sent('session-id', 'session_id', 'x-claude-code-session-id', 'x-session-id', 'x-session-affinity'),
    sessionOfUser(objectOf(claude).user_id),
  ]);
  const id = firstId(sent('x-parent-session-id')) ?? own;
  if (id === undefined) return {};
  const side = firstId(sent('x-claude-code-agent-id', 'x-claude-code-auxiliary-type'));
  const thread = side ?? firstId([thread_id, ...sent('thread-id')]) ?? own;
  if (thread !== id) return { session: { id, ...omitUndefined({ thread }) } };
  return { session: arrayOf(tools).length === 0 ? { id, thread: SIDE } : { id } };
}

const SIDE = 'side';

/** The labels of the session's runs. */
export function sessionLabels(session: ClientSession | undefined): Labels {
  return session === undefined ? {} : { session: session.id, ...omitUndefined({ thread: session.thread }) };
}

/** Under which OpenAI's prompt caches keep the session: each thread has a beginning of its own. */
export function cacheKeyOf(session: ClientSession | undefined): string | undefined {
  if (session === undefined) return undefined;
  const { id, thread } = session;
  return fitId(thread === undefined ? id : `${id}:${thread}`);
}

/** Claude Code's `metadata.user_id` is JSON. */
function sessionOfUser(userId: JsonValue | undefined): JsonValue | undefined {
  try {
    return typeof userId === 'string' ? objectOf(JSON.parse(userId)).session_id : undefined;
  } catch {
    return undefined;
  }
}

function firstId(values: readonly (JsonValue | undefined)[]): string | undefined {
  return values.find((value): value is string => typeof value === 'string' && ID.test(value));
}
