import type { Endpoint } from '../connection.ts';

/** What tells the providers of the Responses API apart. */
export type ResponsesDialect = Endpoint & {
  /** The provider keeps responses and continues from their ids. */
  remembers: boolean;
  /** Who runs `custom_tool_call`s. */
  customTools: 'client' | 'provider';
  /** Whether the model reasons, so that its encrypted reasoning has to be asked for. */
  reasons(model: string): boolean;
};
