import * as z from 'zod';
import { isJsonObject } from '../../../protocol/json.ts';
import { describeIssue, invalid } from '../api-error.ts';
import { readWireItems, type WireItem } from '../request/item-reader.ts';

/** The most items that one request adds, as at OpenAI. */
const MOST_ITEMS = 20;

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine(pairs => Object.keys(pairs).length <= 16, 'expected at most 16 pairs');
const items = z.array(z.unknown()).max(MOST_ITEMS, `expected at most ${MOST_ITEMS} items`);

const creation = z.object({ items: z.nullish(items), metadata: z.nullish(metadata) });
const update = z.object({ metadata: z.nullable(metadata) });
const addition = z.object({ items });

/** Validates the body of `POST /v1/conversations`, which may be empty. Throws a `ResponsesError`. */
export function readCreation(value: unknown): {
  items: readonly WireItem[];
  metadata: Record<string, string>;
} {
  const body = parse(creation, value ?? {});
  return { items: readWireItems(body.items ?? [], 'items'), metadata: body.metadata ?? {} };
}

/** Validates the new metadata of a conversation. Throws a `ResponsesError`. */
export function readUpdate(value: unknown): Record<string, string> {
  return parse(update, value).metadata ?? {};
}

/** Validates items to add. Throws a `ResponsesError`. */
export function readAddition(value: unknown): readonly WireItem[] {
  return readWireItems(parse(addition, value).items, 'items');
}

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  if (!isJsonObject(value))
    throw invalid(null, 'invalid_value', 'The body is not valid: expected an object.');
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw describeIssue(parsed.error.issues[0], '');
}
