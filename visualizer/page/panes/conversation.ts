import type { Failure, QualifiedCall } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import { addToCall, beginCall, type CallFacts, type CallSource, concludeCalls } from '../calls/call-facts.ts';
import type { Taken } from '../journal-fold.ts';
import type { StreamedEvent } from '../runs-api.ts';

export type Entry = { event: StreamedEvent; taken: Taken };

/** The streamed output of an attempt. The text filters have been applied to `text`. */
export type LiveTurn = { turn: number; attempt: number; text: string; reasoning: string };

/** One block of the conversation. `key` stays the same while the block grows. */
export type Block = { key: string; at: number } & (
  | {
      kind: 'message';
      role: string;
      text: string;
      by?: string | undefined;
      unread: boolean;
      others: string[];
    }
  | { kind: 'reply'; text: string; preamble: boolean; live: boolean }
  | { kind: 'reasoning'; text: string; live: boolean }
  | { kind: 'aside'; title: string; text: string }
  | { kind: 'call'; call: CallFacts }
  | { kind: 'failure'; failure: Failure; attempt: number; discarded: string | null }
);

type ConversationSource = CallSource & {
  entries: readonly Entry[];
  live: LiveTurn | null;
  /** The streamed texts by `turn/attempt`, used until the server's view has the filtered text. */
  streamed: ReadonlyMap<string, string>;
};

/** `turn/attempt`. */
export const attemptKey = ({ turn, attempt }: { turn: number; attempt: number }): string =>
  `${turn}/${attempt}`;

/** Builds the conversation from the journal, with filtered texts from the server's view or the stream. */
export function buildConversation(source: ConversationSource): Block[] {
  const { entries, view, live } = source;
  const shown = new Map((view?.transcript ?? []).map(item => [item.id ?? '', item]));
  const calls = new Map<string, CallFacts>();
  const settled = view?.settled;
  const unread = new Set((settled?.status === 'finished' ? settled.unread : []).map(item => item.id));
  const blocks: Block[] = inheritedBlocks(source);
  let hasText = false;
  let hasCalls = false;
  for (const { event, taken } of entries) {
    const { seq, at } = event;
    switch (event.type) {
      case 'run.started':
        blocks.push(...event.input.flatMap((item, index) => readItem(item, `${seq}.${index}`, at)));
        break;
      case 'message.received':
        blocks.push(
          ...event.items.flatMap((item, index) =>
            readItem(item, `${seq}.${index}`, at, event.by, item.id !== undefined && unread.has(item.id)),
          ),
        );
        break;
      case 'text.started':
        hasText = true;
        break;
      case 'calls.started':
        hasCalls = true;
        break;
      case 'turn.completed': {
        const streamed = source.streamed.get(
          attemptKey({ turn: taken.turn.number, attempt: taken.turn.attempt }),
        );
        const seen = (item: Item): string => {
          const known = item.id === undefined ? undefined : shown.get(item.id);
          if (known !== undefined) return textOf(known);
          return streamed ?? (view !== null && view.seq >= seq ? textOf(item) : '…');
        };
        for (const call of event.calls) calls.set(call.callId, beginCall(call, at));
        blocks.push(...readTurn(event.items, event.calls, { seq, at, draft: taken.draft, calls, seen }));
        hasText = hasCalls = false;
        break;
      }
      case 'turn.failed': {
        const { number, attempt } = taken.turn;
        const discarded = hasText ? (source.streamed.get(attemptKey({ turn: number, attempt })) ?? '') : null;
        blocks.push({ key: `${seq}`, at, kind: 'failure', failure: event.error, attempt, discarded });
        hasText = hasCalls = false;
        break;
      }
      case 'finishers.rejected':
        blocks.push({
          key: `${seq}`,
          at,
          kind: 'aside',
          title: 'A finisher rejected the answer',
          text: event.feedback,
        });
        break;
      case 'transcript.edited':
        blocks.push({
          key: `${seq}`,
          at,
          kind: 'aside',
          title: `Transcript edited${event.by === undefined ? '' : ` by ${event.by}`}`,
          text: `The transcript now has ${event.items.length} items.`,
        });
        break;
      case 'run.cancelled':
        blocks.push({
          key: `${seq}`,
          at,
          kind: 'aside',
          title: `Cancelled${event.by === undefined ? '' : ` by ${event.by}`}`,
          text: event.reason ?? '',
        });
        break;
      default:
        if ('callId' in event) addToCall(calls.get(event.callId), event);
    }
  }
  concludeCalls(calls, source);
  if (live !== null) blocks.push(...readLive(live, hasCalls));
  return blocks;
}

type TurnPlace = {
  seq: number;
  at: number;
  draft: boolean;
  calls: ReadonlyMap<string, CallFacts>;
  seen(item: Item): string;
};

function readTurn(items: readonly Item[], made: readonly QualifiedCall[], place: TurnPlace): Block[] {
  const { seq, at, calls, draft } = place;
  return items.flatMap((item, index): Block[] => {
    const key = `${seq}.${index}`;
    switch (item.type) {
      case 'message': {
        const text = draft ? textOf(item) : place.seen(item);
        if (text === '') return [];
        if (draft)
          return [{ key, at, kind: 'aside', title: 'Draft of the planning turn (not shown to users)', text }];
        return [{ key, at, kind: 'reply', text, preamble: made.length > 0, live: false }];
      }
      case 'reasoning':
        return item.text === '' ? [] : [{ key, at, kind: 'reasoning', text: item.text, live: false }];
      case 'tool_call': {
        const call = calls.get(item.callId);
        if (call !== undefined) return [{ key: `call ${item.callId}`, at, kind: 'call', call }];
        return [
          { key, at, kind: 'aside', title: `${item.name} (run by the provider)`, text: item.arguments },
        ];
      }
      case 'provider_item':
        return [{ key, at, kind: 'aside', title: `Provider item ${item.kind}`, text: '' }];
      default:
        return [];
    }
  });
}

function readItem(item: Item, key: string, at: number, by?: string, unread = false): Block[] {
  if (item.type === 'message') {
    const others = item.content.filter(part => part.type !== 'text').map(part => part.type);
    return [{ key, at, kind: 'message', role: item.role, text: textOf(item), by, unread, others }];
  }
  if (item.type === 'reasoning') return [{ key, at, kind: 'reasoning', text: item.text, live: false }];
  if (item.type === 'tool_call')
    return [{ key, at, kind: 'aside', title: `Earlier call of ${item.name}`, text: item.arguments }];
  if (item.type !== 'tool_result') return [];
  const text = typeof item.output === 'string' ? item.output : JSON.stringify(item.output, null, 2);
  return [
    {
      key,
      at,
      kind: 'aside',
      title: item.isError ? 'Error of an earlier call' : 'Result of an earlier call',
      text,
    },
  ];
}

function readLive({ turn, attempt, text, reasoning }: LiveTurn, preamble: boolean): Block[] {
  const key = `live ${turn}/${attempt}`;
  const blocks: Block[] = [];
  if (reasoning !== '')
    blocks.push({ key: `${key} reasoning`, at: 0, kind: 'reasoning', text: reasoning, live: true });
  if (text !== '') blocks.push({ key, at: 0, kind: 'reply', text, preamble, live: true });
  return blocks;
}

/** The transcript items from the runs that this run continues. */
function inheritedBlocks({ view, entries }: ConversationSource): Block[] {
  const first = entries[0]?.event;
  if (view === null || first?.type !== 'run.started' || first.continues === undefined) return [];
  const own = view.transcript.findIndex(item => item.id !== undefined && item.id === first.input[0]?.id);
  const older = own === -1 ? [] : view.transcript.slice(0, own);
  return older.flatMap((item, index) => {
    const key = `older ${index}`;
    if (item.type === 'message' && item.role === 'assistant')
      return [
        { key, at: first.at, kind: 'reply' as const, text: textOf(item), preamble: false, live: false },
      ];
    return readItem(item, key, first.at);
  });
}
