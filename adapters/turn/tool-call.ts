import type { ToolCall } from '../../protocol/turn.ts';
import { parseArguments } from './parse-arguments.ts';

/** Creates a call for the engine from the model's arguments text. Empty text becomes `{}`. */
export function toolCall(callId: string, name: string, text: string): ToolCall {
  return {
    callId,
    name,
    arguments: text.trim() === '' ? '{}' : text,
    ...parseArguments(text),
    executedBy: 'engine',
  };
}
