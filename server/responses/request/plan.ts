import type { Item, MessageItem } from '../../../protocol/item.ts';
import type { Answer, OpenReference } from '../../../protocol/open/answer.ts';
import type { FoundResponse } from '../response-library.ts';
import type { RunResponses } from '../run-responses.ts';
import type { ExposedTool } from '../wire/response-spec.ts';

/** A request's answer to an open call. */
export type CallAnswer = { open: Extract<OpenReference, { callId: string }>; answer: Answer };

/**
 * The tool that a call in the input was made for. `modelName` is the name under which the model called it, if that is
 * stored.
 */
export type CallOrigin = { tool: ExposedTool; modelName?: string };

/** What to do for a request. */
export type Plan =
  /**
   * Start a new run. It may continue an ended run, or use items of the response `refersTo` and its chain. `origins` are
   * the tools of the calls among the items, by call id.
   */
  | {
      type: 'start';
      continues?: RunResponses;
      refersTo?: string;
      items: Item[];
      origins: ReadonlyMap<string, CallOrigin>;
    }
  /** Continue the run; with `forkAt`, continue a fork of it at that entry. */
  | {
      type: 'continue';
      run: RunResponses;
      forkAt?: number;
      callAnswers: CallAnswer[];
      messages: MessageItem[];
    }
  /** The request was made before: return the same response. */
  | { type: 'repeat'; found: FoundResponse };
