import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { expectTypeOf, test } from 'vitest';
import type {
  CHAT_FIELDS,
  MESSAGES_FIELDS,
  RESPONSES_FIELDS,
} from '../../server/gateway/request/field-table.ts';

/** The tables of fields, compared with the types of the providers' clients: what a new version adds does not compile. */

/** The names of the members of each type of a union, as far as they are known. */
type NamesOf<Value> = Value extends Value
  ? keyof { [Name in keyof Value as string extends Name ? never : Name]: 0 }
  : never;

/** The official fields that a table does not have: this is where a new version of a client shows what is missing. */
type Missing<Official, Table> = Exclude<NamesOf<Official>, keyof Table>;

test('every field of the official Responses request is in the table', () => {
  type Official = OpenAI.Responses.ResponseCreateParams;
  expectTypeOf<Missing<Official, typeof RESPONSES_FIELDS>>().toEqualTypeOf<never>();
});

test('every field of the official Chat Completions request is in the table', () => {
  type Official = OpenAI.ChatCompletionCreateParams;
  expectTypeOf<Missing<Official, typeof CHAT_FIELDS>>().toEqualTypeOf<never>();
});

test('every field of the official Messages requests is in the table', () => {
  type Official = Anthropic.MessageCreateParams | Anthropic.Beta.Messages.MessageCreateParams;
  expectTypeOf<Missing<Official, typeof MESSAGES_FIELDS>>().toEqualTypeOf<never>();
});
