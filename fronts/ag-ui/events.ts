import type { Event, EventType } from '@ag-ui/core';

export type { Interrupt, Message, TokenUsage } from '@ag-ui/core';

type Written<Known> = Known extends { type: EventType }
  ? Omit<Known, 'type'> & { type: `${Known['type']}` }
  : never;

/** An AG-UI 1.0 event as serialized. Its `type` is a plain string, so that `@ag-ui/core` is not needed at run time. */
export type AgUiEvent = Written<Event>;
