import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import { shorten } from '../turn/json-access.ts';

const REDACTED = '[redacted]';

/** Keys of known providers, whole or masked; each pattern decides within a few characters: linear time. */
const SECRET_SHAPES: readonly RegExp[] = [
  /\b(?:sk|rk|pk|xai|csk|pplx)-(?:[A-Za-z0-9_-]{6}|[A-Za-z0-9_-]{0,5}\*)[A-Za-z0-9*_-]*/g,
  /\b(?:gsk|hf|r8)_(?:[A-Za-z0-9]{8}|[A-Za-z0-9_-]{0,20}\*)[A-Za-z0-9*_-]*/g,
  /\bAIza(?:[A-Za-z0-9_-]{10}|[A-Za-z0-9_-]{0,9}\*)[A-Za-z0-9*_-]*/g,
];
/** Credential headers, keys echoed in messages, the user info of URLs, and keys in query strings. */
const AFTER_A_LABEL: readonly RegExp[] = [
  /(\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/=._~*-]+/gi,
  /(\b(?:authorization|x-api-key|x-goog-api-key|api-key)["']?\s*[:=]\s*["']?)(?!Bearer|Basic)[^\s"',}]+/gi,
  /(\bapi key(?: provided)?:\s+)[^\s,;]*[^\s,;.]/gi,
  /(:\/\/)[^\s/?#]+(?=@)/g,
  /([?&](?:key|api_key|api-key|token)=)[^&\s"']+/gi,
];
const SECRET_MEMBERS = /^(?:authorization|proxy-authorization|(?:x-)?(?:goog-)?api[-_]?key|apikey)$/i;

/** Shorter secrets are not redacted, because they are likely to occur in ordinary text. */
const SHORTEST_SECRET = 4;

export function redactText(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length >= SHORTEST_SECRET) clean = clean.replaceAll(secret, REDACTED);
  }
  for (const shape of AFTER_A_LABEL) clean = clean.replace(shape, `$1${REDACTED}`);
  for (const shape of SECRET_SHAPES) clean = clean.replace(shape, REDACTED);
  return clean;
}

/** Texts are cut to this many characters before redaction; far fewer are ever shown. */
const LONGEST_READ = 100_000;

/** Prepares an external text for an error message: redacts it, then shortens it to `length` characters. */
export function showText(text: string, length: number, secrets: readonly string[]): string {
  return shorten(redactText(text.slice(0, LONGEST_READ), secrets), length);
}

/** Redacts a value that a provider sent. Returns only the beginning of its JSON text if that is very long. */
export function showJson(value: JsonValue, secrets: readonly string[]): JsonValue {
  const text = JSON.stringify(value);
  return text.length > LONGEST_READ ? showText(text, 2_000, secrets) : redactJson(value, secrets);
}

/** Redacts every string in the value, and every member whose name marks it as a credential. */
function redactJson(value: JsonValue, secrets: readonly string[]): JsonValue {
  if (typeof value === 'string') return redactText(value, secrets);
  if (Array.isArray(value)) return value.map(entry => redactJson(entry, secrets));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      redactText(name, secrets),
      SECRET_MEMBERS.test(name) ? REDACTED : redactJson(member, secrets),
    ]),
  );
}
