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

type Members<Rule> = Rule extends { members: infer Members } ? Members : never;

/** The official members of tools, or of other objects with a type, that a table does not have: `type.member`. */
type MissingByType<Official, Kinds> = Official extends { type?: infer Type }
  ? Type extends keyof Kinds & string
    ? `${Type}.${Missing<Official, Kinds[Type]> & string}`
    : never
  : never;

type Kinds<Rule> = Rule extends { kinds: infer Kinds } ? Kinds : never;

/** The compiler names what is there. */
type None<Names extends never> = Names;

test('every field of the official Responses request is in the table', () => {
  type Official = OpenAI.Responses.ResponseCreateParams;
  expectTypeOf<None<Missing<Official, typeof RESPONSES_FIELDS>>>().toEqualTypeOf<never>();
});

test('every field of the official Chat Completions request is in the table', () => {
  type Official = OpenAI.ChatCompletionCreateParams;
  expectTypeOf<None<Missing<Official, typeof CHAT_FIELDS>>>().toEqualTypeOf<never>();
});

test('every field of the official Messages requests is in the table', () => {
  type Official = Anthropic.MessageCreateParams | Anthropic.Beta.Messages.MessageCreateParams;
  expectTypeOf<None<Missing<Official, typeof MESSAGES_FIELDS>>>().toEqualTypeOf<never>();
});

test('every member of the official objects of a Responses request is in the table', () => {
  type Official = OpenAI.Responses.ResponseCreateParams;
  type Table = typeof RESPONSES_FIELDS;
  type Objects = 'reasoning' | 'text' | 'stream_options' | 'prompt_cache_options';
  type Wrong = { [Name in Objects]: Missing<NonNullable<Official[Name]>, Members<Table[Name]>> }[Objects];
  expectTypeOf<None<Wrong>>().toEqualTypeOf<never>();
  type Tool = MissingByType<NonNullable<Official['tools']>[number], Kinds<Table['tools']>>;
  expectTypeOf<None<Tool>>().toEqualTypeOf<never>();
  type Choice = MissingByType<NonNullable<Official['tool_choice']>, Kinds<Table['tool_choice']>>;
  expectTypeOf<None<Choice>>().toEqualTypeOf<never>();
});

test('every member of the official objects of a Chat Completions request is in the table', () => {
  type Official = OpenAI.ChatCompletionCreateParams;
  type Table = typeof CHAT_FIELDS;
  type Objects = 'stream_options' | 'prompt_cache_options' | 'web_search_options';
  type Wrong = { [Name in Objects]: Missing<NonNullable<Official[Name]>, Members<Table[Name]>> }[Objects];
  expectTypeOf<None<Wrong>>().toEqualTypeOf<never>();
  type Tool = MissingByType<NonNullable<Official['tools']>[number], Kinds<Table['tools']>>;
  expectTypeOf<None<Tool>>().toEqualTypeOf<never>();
});

test('every member of the official objects of a Messages request is in the table', () => {
  type Official = Anthropic.Beta.Messages.MessageCreateParams;
  type Table = typeof MESSAGES_FIELDS;
  type Objects = 'thinking' | 'output_config' | 'metadata';
  type Wrong = { [Name in Objects]: Missing<NonNullable<Official[Name]>, Members<Table[Name]>> }[Objects];
  expectTypeOf<None<Wrong>>().toEqualTypeOf<never>();
  type Custom = Missing<Anthropic.Beta.Messages.BetaTool, Kinds<Table['tools']>['custom']>;
  expectTypeOf<None<Custom>>().toEqualTypeOf<never>();
  type Search = Missing<
    Anthropic.Beta.Messages.BetaWebSearchTool20260318,
    Kinds<Table['tools']>['web_search']
  >;
  expectTypeOf<None<Search>>().toEqualTypeOf<never>();
  type Choice = MissingByType<NonNullable<Official['tool_choice']>, Kinds<Table['tool_choice']>>;
  expectTypeOf<None<Choice>>().toEqualTypeOf<never>();
});
