// Scripts of the scripted model: their format, the count of turns already played, and the conversion to model turns.

import * as z from 'zod';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { unknownFields } from '../../protocol/options/refuse-unknown.ts';
import { finishReasonSchema, type Usage } from '../../protocol/turn.ts';
import { integerIn, objectOf } from '../turn/json-access.ts';
import { closesTurn, isControl } from '../turn/transcript.ts';

const tokens = z.number().int().nonnegative();
const optional = z.exactOptional;

const fields = <Shape extends z.core.$ZodLooseShape>(shape: Shape) =>
  z.strictObject(shape, unknownFields(shape));

const errorObjectSchema = fields({
  code: optional(
    z.enum([
      'authentication',
      'permission',
      'not-found',
      'invalid-request',
      'context-too-long',
      'content-filter',
      'rate-limit',
      'quota',
      'overloaded',
      'server',
      'timeout',
      'network',
      'malformed-stream',
      'unknown',
    ]),
  ),
  status: optional(z.number().int().min(400).max(599)),
  message: optional(z.string()),
  retryAfterMs: optional(z.number().nonnegative()),
  retryable: optional(z.boolean()),
  /** How many calls fail before the script continues, counted by the adapter. Default: every call. */
  times: optional(z.number().int().positive()),
});
/** How a call of a scripted model fails. Without a `code`, `status` and `message` say it. */
export type ScriptedError = z.infer<typeof errorObjectSchema>;

/** A plain text is the error's message. */
const errorSchema = z.preprocess(
  error => (typeof error === 'string' ? { message: error } : error),
  errorObjectSchema,
);

const turnSchema = fields({
  text: optional(z.string()),
  reasoning: optional(z.string()),
  toolCalls: optional(
    z.array(
      fields({
        name: z.string().min(1),
        /** An object, or the text that a model would write, valid or not. Default: `{}`. */
        arguments: optional(z.union([z.string(), z.record(z.string(), z.json())])),
      }),
    ),
  ),
  finishReason: optional(finishReasonSchema),
  usage: optional(
    fields({
      inputTokens: tokens,
      outputTokens: tokens,
      cachedInputTokens: optional(tokens.nullable()),
      cacheWriteTokens: optional(tokens.nullable()),
      reasoningTokens: optional(tokens.nullable()),
    }),
  ),
  /** The duration of the turn in ms. A stream spreads it over its deltas. */
  delayMs: optional(z.number().nonnegative()),
  error: optional(errorSchema),
});

/** A turn in a script. With `error` and no other content, it is an error before the next turn. */
export type ScriptedTurn = Omit<PlayedTurn, 'error'> & { error?: ScriptedError | string };

export type PlayedTurn = z.infer<typeof turnSchema>;

const turnsSchema = z.array(turnSchema);
const scriptSchema = fields({ turns: turnsSchema, delayScale: optional(z.number().nonnegative()) });

export type Script = { name: string; turns: PlayedTurn[]; delayScale: number };

/** What a script is called that is not from a file. */
export const UNNAMED = 'script';

export function loadScript(file: string): Script {
  const fs = globalThis.process?.getBuiltinModule?.('node:fs');
  const { resolve, basename } = globalThis.process?.getBuiltinModule?.('node:path') ?? {};
  if (fs === undefined || resolve === undefined || basename === undefined)
    throw invalid(file, 'there are no files here: pass the turns themselves');
  const path = resolve(file);
  let text: string;
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch (thrown) {
    throw invalid(path, `the file cannot be read: ${messageOf(thrown)}`, thrown);
  }
  let value: JsonValue;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    throw invalid(path, `it is not valid JSON: ${messageOf(thrown)}`, thrown);
  }
  return { ...parseScript(value, path), name: basename(path) };
}

/** Validates a script. Throws an `EngineError` `script-invalid`, whose message names the script by `where`. */
export function parseScript(value: unknown, where = UNNAMED): Script {
  const parsed = Array.isArray(value)
    ? scriptSchema.safeParse({ turns: value })
    : scriptSchema.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues
      .slice(0, 5)
      .map(issue => `${pathText(issue.path)}: ${issue.message}`);
    throw invalid(where, problems.join('; '));
  }
  return { name: UNNAMED, turns: parsed.data.turns, delayScale: parsed.data.delayScale ?? 1 };
}

export function usageIn(turn: PlayedTurn): Usage | null {
  if (!turn.usage) return null;
  return { cachedInputTokens: null, cacheWriteTokens: null, reasoningTokens: null, ...turn.usage };
}

function invalid(where: string, what: string, cause?: unknown): EngineError {
  return new EngineError(
    'script-invalid',
    `The scripted model${where === UNNAMED ? '' : ` ${where}`} is not valid: ${what}. Expected [{ text?, reasoning?, toolCalls?: [{ name, arguments? }], finishReason?, usage?, delayMs?, error? }, …], or { "turns": […], "delayScale"?: number }.`,
    { where, what },
    { cause },
  );
}

function pathText(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'top level';
  const steps = path.map(key => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`));
  return steps.join('').replace(/^\./, '');
}

/**
 * Returns the number of model turns. Items of a scripted turn have its number, which is exact in a trimmed transcript
 * too. Else a turn is all that follows a result or another's message: two turns of another provider may count as one.
 */
export function countTurns(transcript: readonly Item[], provider: string): number {
  let count = 0;
  let inTurn = false;
  for (const item of transcript) {
    if (isControl(item)) continue;
    if (closesTurn(item)) {
      inTurn = false;
      continue;
    }
    const { opaque } = item;
    const at = opaque?.provider === provider ? integerIn(objectOf(opaque.data).turn) : undefined;
    if (at !== undefined) count = Math.max(count, at + 1);
    else if (!inTurn) count += 1;
    inTurn = true;
  }
  return count;
}
