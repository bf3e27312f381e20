import type { Endpoint } from '../http/connection.ts';

export type ResponsesDialect = Endpoint & {
  /** Whether the provider stores responses and can continue from their ids. */
  remembers: boolean;
  /** Whether a continued response keeps its instructions, and new ones are refused. Default: `false`. */
  keepsInstructions?: boolean;
  /** Who runs the calls of `custom_tool_call` and of the tools that OpenAI's models know, such as `shell_call`. */
  customTools: 'client' | 'provider';
  /** Whether the model is a reasoning model, so that its encrypted reasoning must be requested. */
  reasons(model: string): boolean;
  /** The form of reasoning that the provider accepts back. Default: `encrypted`. */
  reasoningReplay?: 'encrypted' | 'content';
  /** Whether the calls of a turn must be adjacent and directly followed by their results. Default: `false`. */
  callsTogether?: boolean;
  /** Whether the provider counts the input tokens of a request at `/responses/input_tokens`. Default: `false`. */
  countsTokens?: boolean;
  /** Whether the provider summarizes transcripts at `/responses/compact`. Default: `false`. */
  compacts?: boolean;
  /** Whether tools and instructions can be appended to the input of a model. Default: never. */
  appends?(model: string): boolean;
  /** Whether a model drops reasoning after a change of what came before it. Default: never. */
  bindsReasoning?(model: string): boolean;
  /** Whether the end of each message of the user is marked for the prompt cache. Default: `false`. */
  breakpoints?: boolean;
  /** Whether the provider searches deferred tools for a model; `undefined` if that is unknown. Default: never. */
  searchesTools?(model: string): boolean | undefined;
  /** How an output schema is enforced. Default: `native`. */
  structuredOutput?: 'native' | 'instructions';
};
