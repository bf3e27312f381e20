import type { Event, EventType } from '@ag-ui/core';

export type { Interrupt, Message, TokenUsage } from '@ag-ui/core';

type Written<Known> = Known extends { type: EventType }
  ? Omit<Known, 'type'> & { type: `${Known['type']}` }
  : never;

/** An event of AG-UI 1.0 as it is written: its type is a plain string, so that nothing of the package is needed. */
export type AgUiEvent = Written<Event>;
