import type { Failure, QualifiedCall } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import { addToCall, beginCall, type CallFacts, type CallSource, concludeCalls } from '../calls/call-facts.ts';
import type { Taken } from '../journal-fold.ts';
import { formatOutput } from '../render/format.ts';
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

/** The conversation while it is built, entry by entry. */
type Draft = {
  source: ConversationSource;
  /** The server's filtered items, by id. */
  shown: ReadonlyMap<string, Item>;
  /** Ids of messages that the model did not read. */
  unread: ReadonlySet<string | undefined>;
  calls: Map<string, CallFacts>;
  blocks: Block[];
  /** Whether the current attempt has streamed text, and calls. */
  hasText: boolean;
  hasCalls: boolean;
};

type Of<Type extends StreamedEvent['type']> = Extract<StreamedEvent, { type: Type }>;
type Reader<Type extends StreamedEvent['type']> = (draft: Draft, event: Of<Type>, taken: Taken) => void;

/** What each event adds to the conversation. Other events add to the call they name. */
const READERS: { readonly [Type in StreamedEvent['type']]?: Reader<Type> } = {
  'run.started': ({ blocks }, { input, seq, at }) => {
    blocks.push(...input.flatMap((item, index) => readItem(item, `${seq}.${index}`, at)));
  },
  'message.received': ({ blocks, unread }, { items, seq, at, by }) => {
    const isUnread = ({ id }: Item) => id !== undefined && unread.has(id);
    blocks.push(...items.flatMap((item, index) => readItem(item, `${seq}.${index}`, at, by, isUnread(item))));
  },
  'text.started': draft => {
    draft.hasText = true;
  },
  'calls.started': draft => {
    draft.hasCalls = true;
  },
  'turn.completed': (draft, { items, calls, seq, at }, { turn, draft: isDraft }) => {
    const { view, streamed } = draft.source;
    const text = streamed.get(attemptKey({ turn: turn.number, attempt: turn.attempt }));
    const seen = (item: Item): string => {
      const known = item.id === undefined ? undefined : draft.shown.get(item.id);
      if (known !== undefined) return textOf(known);
      return text ?? (view !== null && view.seq >= seq ? textOf(item) : '…');
    };
    for (const call of calls) draft.calls.set(call.callId, beginCall(call, at));
    draft.blocks.push(...readTurn(items, calls, { seq, at, draft: isDraft, calls: draft.calls, seen }));
    draft.hasText = draft.hasCalls = false;
  },
  'turn.failed': (draft, { error, seq, at }, { turn: { number, attempt } }) => {
    const streamed = draft.source.streamed.get(attemptKey({ turn: number, attempt }));
    const discarded = draft.hasText ? (streamed ?? '') : null;
    draft.blocks.push({ key: `${seq}`, at, kind: 'failure', failure: error, attempt, discarded });
    draft.hasText = draft.hasCalls = false;
  },
  'finishers.rejected': ({ blocks }, event) =>
    addAside(blocks, event, 'A finisher rejected the answer', event.feedback),
  'transcript.edited': ({ blocks }, event) =>
    addAside(
      blocks,
      event,
      `Transcript edited${byWhom(event)}`,
      `The transcript now has ${event.items.length} items.`,
    ),
  'run.cancelled': ({ blocks }, event) =>
    addAside(blocks, event, `Cancelled${byWhom(event)}`, event.reason ?? ''),
};

/** Builds the conversation from the journal, with filtered texts from the server's view or the stream. */
export function buildConversation(source: ConversationSource): Block[] {
  const { entries, view, live } = source;
  const settled = view?.settled;
  const draft: Draft = {
    source,
    shown: new Map((view?.transcript ?? []).map(item => [item.id ?? '', item])),
    unread: new Set((settled?.status === 'finished' ? settled.unread : []).map(item => item.id)),
    calls: new Map(),
    blocks: inheritedBlocks(source),
    hasText: false,
    hasCalls: false,
  };
  for (const { event, taken } of entries) {
    const read = READERS[event.type] as Reader<StreamedEvent['type']> | undefined;
    if (read !== undefined) read(draft, event, taken);
    else if ('callId' in event) addToCall(draft.calls.get(event.callId), event);
  }
  concludeCalls(draft.calls, source);
  if (live !== null) draft.blocks.push(...readLive(live, draft.hasCalls));
  return draft.blocks;
}

function addAside(blocks: Block[], { seq, at }: StreamedEvent, title: string, text: string): void {
  blocks.push({ key: `${seq}`, at, kind: 'aside', title, text });
}

function byWhom({ by }: { by?: string | undefined }): string {
  return by === undefined ? '' : ` by ${by}`;
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
  return [
    {
      key,
      at,
      kind: 'aside',
      title: item.isError ? 'Error of an earlier call' : 'Result of an earlier call',
      text: formatOutput(item.output),
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
