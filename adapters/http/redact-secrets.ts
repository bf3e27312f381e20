import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import { shorten } from '../turn/json-access.ts';

const REDACTED = '[redacted]';

/**
 * Whatever looks like a key of a provider we know, whole or with stars in it. Each decides within a few
 * characters whether it is one, and then takes all of it: a text is read once, whatever it repeats.
 */
const SECRET_SHAPES: readonly RegExp[] = [
  /\b(?:sk|rk|pk|xai|csk|pplx)-(?:[A-Za-z0-9_-]{6}|[A-Za-z0-9_-]{0,5}\*)[A-Za-z0-9*_-]*/g,
  /\b(?:gsk|hf|r8)_(?:[A-Za-z0-9]{8}|[A-Za-z0-9_-]{0,20}\*)[A-Za-z0-9*_-]*/g,
  /\bAIza(?:[A-Za-z0-9_-]{10}|[A-Za-z0-9_-]{0,9}\*)[A-Za-z0-9*_-]*/g,
];
/** A credential header, a key that a message echoes, or what a URL has before its host. */
const AFTER_A_NAME: readonly RegExp[] = [
  /(\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/=._~*-]+/gi,
  /(\b(?:authorization|x-api-key|x-goog-api-key|api-key)["']?\s*[:=]\s*["']?)(?!Bearer|Basic)[^\s"',}]+/gi,
  /(\bapi key(?: provided)?:\s+)[^\s,;]*[^\s,;.]/gi,
  /(:\/\/)[^\s/?#]+(?=@)/g,
  /([?&](?:key|api_key|api-key|token)=)[^&\s"']+/gi,
];
const SECRET_MEMBERS = /^(?:authorization|proxy-authorization|(?:x-)?(?:goog-)?api[-_]?key|apikey)$/i;

/** Secrets shorter than this are too likely to be part of ordinary text. */
const SHORTEST_SECRET = 4;

/** The text without the given secrets and without anything that looks like one. */
export function redactText(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length >= SHORTEST_SECRET) clean = clean.replaceAll(secret, REDACTED);
  }
  for (const shape of AFTER_A_NAME) clean = clean.replace(shape, `$1${REDACTED}`);
  for (const shape of SECRET_SHAPES) clean = clean.replace(shape, REDACTED);
  return clean;
}

/** Of a longer text no more is read: what is shown of one is far less. */
const LONGEST_READ = 100_000;

/** The beginning of a text from outside as an error may show it: redacted before it is cut to `length` characters. */
export function showText(text: string, length: number, secrets: readonly string[]): string {
  return shorten(redactText(text.slice(0, LONGEST_READ), secrets), length);
}

/** What a provider sent, redacted; of what is very long only the beginning of its JSON text. */
export function showJson(value: JsonValue, secrets: readonly string[]): JsonValue {
  const text = JSON.stringify(value);
  return text.length > LONGEST_READ ? showText(text, 2_000, secrets) : redactJson(value, secrets);
}

/** The value with every text in it redacted, and every member that holds a credential by its name. */
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
