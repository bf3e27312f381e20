import { describeResponsesError } from '../api-error.ts';
import type { WireEvent } from './response-writer.ts';

/**
 * The last event of a stream that fails. It contains the error twice: clients of Open Responses read `error`, other
 * clients read the fields of the event.
 */
export function errorEvent(thrown: unknown, sequenceNumber: number): WireEvent {
  const { error } = describeResponsesError(thrown).body;
  const { message, code, param } = error;
  return { type: 'error', sequence_number: sequenceNumber, message, code, param, error };
}
