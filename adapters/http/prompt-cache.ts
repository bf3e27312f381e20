import { EngineError } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';

/**
 * How OpenAI caches the beginning of prompts. The models of `ttl` and `mode` are gpt-5.6 and later:
 * https://developers.openai.com/api/docs/guides/prompt-caching
 */
export type PromptCache = {
  /** Requests with the same key and the same beginning share a cache. */
  key?: string;
  /** The time for which a beginning is kept at least. Default: `30m`. The Chat Completions API has no other. */
  ttl?: '30m' | '12h';
  /**
   * Where a cached beginning ends. `implicit`: where OpenAI chooses. `explicit`: after each message of the user, and
   * nowhere else, so that results of tools are not written to the cache. Default: `implicit`.
   */
  mode?: 'implicit' | 'explicit';
  /** The time for which models before gpt-5.6 keep a beginning at most. OpenAI has deprecated it. */
  retention?: 'in_memory' | '24h';
};

const NAMES: NamesOf<PromptCache> = { key: true, ttl: true, mode: true, retention: true };

const VALUES: { readonly [Name in 'ttl' | 'mode' | 'retention']: readonly string[] } = {
  ttl: ['30m', '12h'],
  mode: ['implicit', 'explicit'],
  retention: ['in_memory', '24h'],
};

/** The members of request bodies. Throws an `EngineError` `agent-invalid` for values that the API does not have. */
export function promptCacheMembers(of: string, cache: PromptCache = {}, ttls = VALUES.ttl): JsonObject {
  refuseUnknownOptions(`promptCache of ${of}`, cache, NAMES);
  const { key, ttl, mode, retention } = cache;
  for (const [name, values] of Object.entries({ ...VALUES, ttl: ttls })) {
    const value: unknown = { ttl, mode, retention }[name];
    if (value !== undefined && !values.some(known => known === value))
      throw invalidCache(of, name, `${values.map(known => `"${known}"`).join(' or ')}`, value);
  }
  if (key !== undefined && (typeof key !== 'string' || key === ''))
    throw invalidCache(of, 'key', 'a non-empty string', key);
  const options: JsonObject = omitUndefined({ mode, ttl });
  const hasOptions = Object.keys(options).length > 0;
  if (hasOptions && retention !== undefined)
    throw new EngineError(
      'agent-invalid',
      `promptCache of ${of} has retention, which is for models before gpt-5.6, and ${Object.keys(options).join(' and ')}, for later ones. OpenAI refuses both together: leave one of them out.`,
    );
  return {
    ...omitUndefined({ prompt_cache_key: key, prompt_cache_retention: retention }),
    ...(hasOptions ? { prompt_cache_options: options } : {}),
  };
}

function invalidCache(of: string, name: string, expected: string, value: unknown): EngineError {
  const got = JSON.stringify(value) ?? String(value);
  return new EngineError(
    'agent-invalid',
    `expected promptCache.${name} of ${of} to be ${expected}, got ${got}.`,
  );
}

/** The content of a message, marked as the end of a cached beginning. `type`: of a part that is a text. */
export function withBreakpoint(content: JsonValue, type: 'input_text' | 'text'): JsonValue {
  const parts = typeof content === 'string' ? [{ type, text: content }] : content;
  if (!Array.isArray(parts)) return content;
  return parts.map((part, at) =>
    at === parts.length - 1 ? { ...Object(part), prompt_cache_breakpoint: { mode: 'explicit' } } : part,
  );
}
