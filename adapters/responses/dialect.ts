import type { Endpoint } from '../http/connection.ts';

/** What tells the providers of the Responses API apart. */
export type ResponsesDialect = Endpoint & {
  /** The provider keeps responses and continues from their ids. */
  remembers: boolean;
  /** A response that is continued keeps its instructions, and new ones are refused. */
  keepsInstructions?: boolean;
  /** Who runs `custom_tool_call`s. */
  customTools: 'client' | 'provider';
  /** Whether the model reasons, so that its encrypted reasoning has to be asked for. */
  reasons(model: string): boolean;
  /** What of its reasoning the provider takes back. Default `encrypted`. */
  reasoningReplay?: 'encrypted' | 'content';
  /** Whether results must follow calls at once, with nothing said between the calls. Default false. */
  callsTogether?: boolean;
  /** How the provider is held to `output`. Default `native`. */
  structuredOutput?: 'native' | 'instructions';
};
