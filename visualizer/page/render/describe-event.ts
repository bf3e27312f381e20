import type { RunEvent } from '../../../protocol/event.ts';
import * as shared from '../../describe-event.ts';
import { formatClock, formatSpan, shorten } from './format.ts';

const LONGEST = 300;

/** Describes an event in one line that is safe to show. `nameCall` names a call by its tool. */
export function describeEvent(event: RunEvent, nameCall: (callId: string) => string): string {
  const line = shared.describeEvent(event, { shorten, nameCall, formatSpan, formatClock });
  return shorten(line, LONGEST);
}
