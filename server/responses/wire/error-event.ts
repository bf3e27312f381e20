import { describeResponsesError } from '../api-error.ts';
import type { WireEvent } from './response-writer.ts';

/**
 * The event that ends a stream which cannot go on. The error is in it twice: clients of Open Responses read `error`,
 * others the fields of the event.
 */
export function errorEvent(thrown: unknown, sequenceNumber: number): WireEvent {
  const { error } = describeResponsesError(thrown).body;
  const { message, code, param } = error;
  return { type: 'error', sequence_number: sequenceNumber, message, code, param, error };
}
