// tools/ai-sdk: tools of the Vercel AI SDK as tools of an agent.

import type { Part } from '../../protocol/item.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { AsResult } from '../tool.ts';

/** A tool of the AI SDK, converted: its name, and the types of its schemas and of `execute`. */
export type ConvertedTool<Name extends string, Given> = Tool<
  Name,
  ValueOf<Member<Given, 'inputSchema'>>,
  ResultOf<Given>,
  ContextOf<Given>
>;

type Member<Given, Name extends string> = Given extends { [Key in Name]?: infer Value }
  ? Exclude<Value, undefined>
  : never;

/** The type that a schema validates: of a Standard Schema, of a schema of the AI SDK, or of a function that returns one. */
type ValueOf<Schema> = [Schema] extends [never] ? unknown : ValueOfEach<Schema>;
type ValueOfEach<Schema> = Schema extends { readonly _type: infer Value }
  ? Value
  : Schema extends { readonly '~standard': { readonly types?: { readonly output: infer Value } | undefined } }
    ? Value
    : Schema extends () => { readonly _type: infer Value }
      ? Value
      : unknown;

/** A tool made by `tool()` of `ai` may have a `toModelOutput`; its result is then what the model reads. */
type ResultOf<Given> =
  | AsResult<ReturnOf<Given>>
  | ('toModelOutput' extends keyof Given ? ModelContent<AsResult<ReturnOf<Given>>> : never);

/** What the model reads, and what the tool returned. See `ContentOutput`. */
type ModelContent<Data> = { type: 'content'; parts: Part[]; data?: Data };

type ReturnOf<Given> = [Member<Given, 'execute'>] extends [never]
  ? ValueOf<Member<Given, 'outputSchema'>>
  : Member<Given, 'execute'> extends (input: never, options: never) => infer Returned
    ? EachOf<Returned>
    : unknown;

type EachOf<Returned> =
  Returned extends AsyncIterable<infer Value>
    ? Value
    : Returned extends PromiseLike<infer Value>
      ? Value
      : Returned;

/** A tool without a `contextSchema` takes any context. */
type ContextOf<Given> = string extends keyof ValueOf<Member<Given, 'contextSchema'>>
  ? unknown
  : ValueOf<Member<Given, 'contextSchema'>>;
