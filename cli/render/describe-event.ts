import type { RunEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import * as shared from '../../visualizer/describe-event.ts';
import { formatClock, formatSpan } from './format-time.ts';
import { shorten } from './show-safely.ts';

export { describePlayed, describeUsage, INTERRUPTED, nameModels } from '../../visualizer/describe-event.ts';

const FORMAT: shared.EventFormat = { shorten, formatSpan, formatClock, nameCall: callId => callId };

/** Describes an event in one line for the terminal. */
export function describeEvent(event: RunEvent): string {
  return shared.describeEvent(event, FORMAT);
}

/** Describes a completed turn: model, finish reason, calls, duration and tokens. */
export function describeTurn(event: Extract<RunEvent, { type: 'turn.completed' }>): string {
  return shared.describeTurn(event, FORMAT);
}

/** Describes why a turn failed: code, HTTP status and message. */
export function describeFailedTurn(event: Extract<RunEvent, { type: 'turn.failed' }>): string {
  return shared.describeFailedTurn(event, FORMAT);
}

/** A JSON value on one line; strings without quotes. */
export function showValue(value: JsonValue, length?: number): string {
  return shared.describeValue(value, FORMAT, length);
}
