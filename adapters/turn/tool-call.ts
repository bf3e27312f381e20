import type { ToolCall } from '../../protocol/turn.ts';
import { parseArguments } from './parse-arguments.ts';

/** A call for the engine from what the model wrote; no arguments become `{}`. */
export function toolCall(callId: string, name: string, text: string): ToolCall {
  return {
    callId,
    name,
    arguments: text.trim() === '' ? '{}' : text,
    ...parseArguments(text),
    executedBy: 'engine',
  };
}
