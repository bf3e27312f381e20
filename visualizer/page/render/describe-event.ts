import type { RunEvent } from '../../../protocol/event.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import * as shared from '../../describe-event.ts';
import { formatLine, formatTimeOfDay } from './format.ts';

const LONGEST = 300;

/** Describes an event in one line that is safe to show. `nameCall` names a call by its tool. */
export function describeShownEvent(event: RunEvent, nameCall: (callId: string) => string): string {
  const line = shared.describeEvent(event, {
    shorten: formatLine,
    nameCall,
    formatSpan: formatDuration,
    formatClock: formatTimeOfDay,
  });
  return formatLine(line, LONGEST);
}
