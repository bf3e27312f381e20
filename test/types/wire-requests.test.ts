import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { expectTypeOf, test } from 'vitest';
import type * as z from 'zod';
import type { JsonValue } from '../../protocol/json.ts';
import type { chatBody } from '../../server/chat-completions/chat-request.ts';
import type { message } from '../../server/messages/message-input.ts';
import type { messageBody } from '../../server/messages/message-request.ts';
import type { inputItem } from '../../server/responses/item-reader.ts';
import type { createBody } from '../../server/responses/request-body.ts';

/** The schemas of requests, compared with the types of the providers' own clients: a difference does not compile. */

/** The type as JSON that a client sends: interfaces become types, and anything becomes any JSON. */
type Sent<Value> = unknown extends Value
  ? JsonValue
  : Value extends string | number | boolean | null | undefined
    ? Value
    : Value extends readonly (infer Entry)[]
      ? Sent<Entry>[]
      : Value extends object
        ? { [Name in keyof Value]: Sent<Value[Name]> }
        : Value;

/** The names of the fields that a schema declares. */
type FieldsOf<Body> = keyof { [Name in keyof Body as string extends Name ? never : Name]: 0 };

/** Fields of a schema that the official type does not have. */
type Unknown<Body, Official> = Exclude<FieldsOf<Body>, keyof Official>;

/** Fields of which the schema does not take every official value. */
type Narrower<Body, Official> = {
  [Name in FieldsOf<Body> & keyof Official]: Sent<Official[Name]> extends Body[Name] ? never : Name;
}[FieldsOf<Body> & keyof Official];

/** The members of a union of which the schema does not take every official value, by their `type`. */
type Refused<Body, Official extends { type?: string | null }> = Official extends Official
  ? Sent<Official> extends Body
    ? never
    : NonNullable<Official['type']>
  : never;

type Of<Message, Role> = Extract<Message, { role: Role }>;
type PartOf<Content> = Extract<Content, readonly unknown[]>[number];

test('the fields of a Chat Completions request are those of the official type', () => {
  type Body = z.input<typeof chatBody>;
  type Official = OpenAI.ChatCompletionCreateParams;
  // Other providers of this API have them.
  expectTypeOf<Unknown<Body, Official>>().toEqualTypeOf<
    'top_k' | 'reasoning' | 'thinking' | 'enable_thinking' | 'chat_template_kwargs'
  >();
  // Compared below; tools of a choice are typed as any object; a JSON schema has to be there.
  expectTypeOf<Narrower<Body, Official>>().toEqualTypeOf<'messages' | 'tool_choice' | 'response_format'>();
  type Format = OpenAI.ChatCompletionCreateParams['response_format'];
  expectTypeOf<Refused<Body['response_format'], NonNullable<Format>>>().toEqualTypeOf<'json_schema'>();
});

test('the messages of a Chat Completions request are those of the official type', () => {
  type Message = z.input<typeof chatBody>['messages'][number];
  type Official = OpenAI.ChatCompletionMessageParam;
  expectTypeOf<Exclude<Official['role'], Message['role']>>().toEqualTypeOf<'function'>();
  expectTypeOf<Exclude<Message['role'], Official['role']>>().toEqualTypeOf<never>();
  type UserPart = PartOf<Of<Message, 'user'>['content']>;
  // Audio is refused, and a file has to come with its data.
  expectTypeOf<Refused<UserPart, OpenAI.ChatCompletionContentPart>>().toEqualTypeOf<'input_audio' | 'file'>();
  type AnswerPart = PartOf<Of<Message, 'assistant'>['content']>;
  type OfficialPart = PartOf<Of<Official, 'assistant'>['content']>;
  expectTypeOf<Refused<AnswerPart, OfficialPart>>().toEqualTypeOf<never>();
});

test('the fields of a Responses request are those of the official type', () => {
  type Body = z.input<typeof createBody>;
  type Official = OpenAI.Responses.ResponseCreateParams;
  // Other gateways of this API have the penalties.
  expectTypeOf<Unknown<Body, Official>>().toEqualTypeOf<'frequency_penalty' | 'presence_penalty'>();
  // Choices of tools that this server does not have; the official type of `context_management` is any string.
  expectTypeOf<Narrower<Body, Official>>().toEqualTypeOf<'tool_choice' | 'context_management'>();
});

test('the fields of a Messages request are those of the official type', () => {
  type Body = z.input<typeof messageBody>;
  type Official = Anthropic.MessageCreateParams;
  // The API takes them; the client's types no longer have the first four, and the others only as beta features.
  expectTypeOf<Unknown<Body, Official>>().toEqualTypeOf<
    ('temperature' | 'top_p' | 'top_k' | 'output_format') | ('context_management' | 'fallbacks')
  >();
  // Messages are compared below; Anthropic's other tools are refused by their type.
  expectTypeOf<Narrower<Body, Official>>().toEqualTypeOf<'messages' | 'tools'>();
  type Tool = NonNullable<Body['tools']>[number];
  type Own = Sent<Anthropic.Tool | Anthropic.WebSearchTool20250305>;
  expectTypeOf<Own extends Tool ? true : false>().toEqualTypeOf<true>();
});

test('the blocks of a Messages request are those of the official type', () => {
  type Body = z.input<typeof message>;
  type Block = Anthropic.ContentBlockParam;
  type Input = PartOf<Of<Body, 'user'>['content']>;
  type Answer = PartOf<Of<Body, 'assistant'>['content']>;
  // A beta feature.
  expectTypeOf<Exclude<(Input | Answer)['type'], Block['type']>>().toEqualTypeOf<'compaction'>();
  type Kinds<Known> = Extract<Block, { type: Known }>;
  // Uploaded files and results of search are refused, wherever they are.
  type InputBlock = Kinds<Input['type']>;
  expectTypeOf<Refused<Input, InputBlock>>().toEqualTypeOf<'image' | 'document' | 'tool_result'>();
  type AnswerBlock = Kinds<Answer['type']>;
  expectTypeOf<Refused<Answer, AnswerBlock>>().toEqualTypeOf<never>();
});

test('the input items of a Responses request are those of the official type', () => {
  type Item = z.input<typeof inputItem>;
  type Official = OpenAI.Responses.ResponseInputItem;
  expectTypeOf<Exclude<Item['type'], Official['type']>>().toEqualTypeOf<never>();
  /** Of this server: they take no ids of files, and a type that is `null` counts as absent. */
  type Narrow = 'message' | 'function_call_output' | 'custom_tool_call_output' | 'item_reference';
  /** Of these the table of `item-kinds.ts` says what they need. */
  type OfOtherTools =
    | `${'apply_patch' | 'computer' | 'local_shell' | 'shell'}_call${'' | '_output'}`
    | 'image_generation_call'
    | 'tool_search_call'
    | 'tool_search_output'
    | 'program'
    | 'program_output';
  type Orders = 'additional_tools' | 'compaction_trigger' | 'configuration_update';
  expectTypeOf<Refused<Item, Official>>().toEqualTypeOf<Narrow | OfOtherTools | Orders>();
});
