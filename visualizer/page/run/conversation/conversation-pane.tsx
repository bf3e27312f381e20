import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { MessageItem } from '../../../../protocol/item.ts';
import { omitUndefined } from '../../../../protocol/json.ts';
import { formatDuration } from '../../../../protocol/listing/format-duration.ts';
import { textOf } from '../../../../protocol/message.ts';
import { shortenOwnerName } from '../../../../protocol/owner-name.ts';
import { navigate } from '../../app/router.ts';
import { mayOperate } from '../../data/caller.ts';
import { runPath } from '../../data/request.ts';
import { problemOf, startRun } from '../../data/send-command.ts';
import type { RunModel } from '../../model/run-model.ts';
import type { Block } from '../../model/run-story.ts';
import { formatLine, formatOutput, formatTimeOfDay, showSafe } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import { DraftField, dropDrafts, useDraft } from '../../ui/draft-field.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { MediaParts } from '../../ui/picture.tsx';
import { Details, Diff, FoldedText, LongText, Safe } from '../../ui/text.tsx';
import { Form } from '../../ui/two-presses.tsx';
import { useDesk } from '../desk.ts';
import { ErrorBlock } from '../errors/error-block.tsx';
import { CallCard } from './call-card.tsx';

const SHOWN = 30;
const NEAR_PX = 60;

type Of<Kind extends Block['kind']> = Extract<Block, { kind: Kind }>;

function inheritedBlocks(model: RunModel): { key: string; who: string; text: string }[] {
  const view = model.view.value;
  const first = model.entry(1);
  if (view === null || first?.type !== 'run.started' || first.continues === undefined) return [];
  const own = view.transcript.findIndex(item => item.id !== undefined && item.id === first.input[0]?.id);
  const { items: made = [] } = model.fold.context?.compaction ?? {};
  const summaries = new Set(first.inherits?.items);
  const older = view.transcript.slice(0, Math.max(0, own));
  return older.flatMap((item, index) => {
    if (item.id !== undefined && made.includes(item.id) && !summaries.has(item.id)) return [];
    const key = `older ${index}`;
    if (item.type === 'message') return [{ key, who: whoOf(item, summaries), text: textOf(item) }];
    if (item.type === 'tool_call') return [{ key, who: `call of ${item.name}`, text: item.arguments }];
    if (item.type === 'tool_result') return [{ key, who: 'result', text: formatOutput(item.output) }];
    return [];
  });
}

function whoOf({ id, role }: MessageItem, summaries: ReadonlySet<string>): string {
  if (id !== undefined && summaries.has(id)) return 'compaction';
  return role === 'assistant' ? 'agent' : role;
}

export function ConversationPane() {
  const { model, source } = useDesk();
  const more = useSignal(0);
  const box = useRef<HTMLElement>(null);
  const atEnd = useRef(true);
  const { blocks } = model.story;
  const at = model.at.value;
  const count = blocks.findLastIndex(({ seq }) => seq <= at) + 1;
  const first = Math.max(0, count - SHOWN - more.value);
  const shown = blocks.slice(first, count);
  const inherited = first === 0 ? inheritedBlocks(model) : [];
  void model.live.value;
  void model.answering.value;
  useLayoutEffect(() => {
    if (!atEnd.current) return;
    // In the next frame, so that all panes are laid out once.
    const frame = requestAnimationFrame(() => {
      if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
    });
    return () => cancelAnimationFrame(frame);
  });
  return (
    <>
      <section
        ref={box}
        class="scroll conversation"
        aria-label="Conversation"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
        tabIndex={0}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
        }}
      >
        <div class="blocks">
          {first > 0 && (
            <Button
              class="quiet"
              label={`Show earlier (${first} more)`}
              onClick={() => {
                atEnd.current = false;
                more.value += SHOWN;
              }}
            />
          )}
          {inherited.map(({ key, who, text }) => (
            <div key={key} class="block message inherited">
              <Who name={who} mark="earlier run" />
              <LongText text={text} kind="prose" />
            </div>
          ))}
          {shown.map(block => (
            <BlockView key={`${block.kind} ${block.key}`} block={block} />
          ))}
          {model.isAtEnd.value && <LiveBlocks />}
        </div>
      </section>
      {source.live && mayOperate() && <Composer />}
    </>
  );
}

function BlockView({ block }: { block: Block }) {
  const { model, source } = useDesk();
  switch (block.kind) {
    case 'message': {
      const { item, by = 'user', at } = block;
      const settled = model.view.value?.settled;
      const all = settled?.status === 'finished' ? settled.unread : [];
      const unread = item.id !== undefined && all.some(({ id }) => id === item.id);
      return (
        <div class="block message">
          <Who
            name={item.role === 'user' ? by : item.role}
            at={at}
            mark={unread ? 'arrived too late to be read' : ''}
          />
          <LongText text={textOf(item)} kind="prose" />
          {item.content.map((part, index) => part.type !== 'text' && <MediaParts key={index} part={part} />)}
        </div>
      );
    }
    case 'reply': {
      const { text, before } = model.readReply(block);
      const isReplaced = block.replacedAt !== undefined && block.replacedAt <= model.at.value;
      const preamble = block.preamble ? 'before tool calls' : '';
      return (
        <Reply at={block.at} mark={isReplaced ? 'replaced by an edit' : preamble} text={text}>
          {before !== null && (
            <FoldedText summary="The model's words, before the guardrails" text={before} kind="mono" />
          )}
        </Reply>
      );
    }
    case 'taken':
      return (
        <Reply name={block.agent} at={block.at} mark="handed over" text={block.text}>
          {source.live && (
            <p class="muted">
              <a href={runPath(block.runId)}>Its run</a>
            </p>
          )}
        </Reply>
      );
    case 'edit':
      return (
        <div class="block">
          <Details open summary={showSafe(block.title)}>
            {() => <Diff before={block.before} after={block.after} />}
          </Details>
        </div>
      );
    case 'reasoning':
      return <Aside kind="prose" title="Reasoning" text={block.text} />;
    case 'aside':
      if (block.isError)
        return (
          <ErrorBlock title={block.title} seq={block.seq}>
            <LongText text={block.text} kind="prose" />
          </ErrorBlock>
        );
      return <Aside title={block.title + laterOf(block, model.at.value)} text={block.text} />;
    case 'call':
      return <CallCard record={block.record} />;
    case 'failure':
      return <FailureCard block={block} />;
    case 'crash':
      return <CrashCard block={block} />;
  }
}

const laterOf = ({ later }: Of<'aside'>, at: number): string => (later && later.seq <= at ? later.text : '');

function FailureCard({ block }: { block: Of<'failure'> }) {
  const { model } = useDesk();
  const { failure } = block;
  const attempts = block.attempts.filter(({ seq }) => seq <= model.at.value);
  const [first, last] = [attempts[0], attempts.at(-1)];
  const status = failure.status === undefined ? '' : ` (HTTP ${failure.status})`;
  const where = failure.model === undefined ? '' : ` of ${failure.model}`;
  const range = `${attempts.length} attempts (${first?.attempt} to ${last?.attempt})`;
  const which = attempts.length === 1 ? `Attempt ${first?.attempt}` : range;
  const words = messageIn(failure.message);
  const isEnd = model.story.blocks.at(-1) === block;
  return (
    <ErrorBlock
      title={`${which}${where} failed: ${failure.code}${status}`}
      advice={isEnd ? '' : 'The run tried again by itself.'}
      seq={block.seq}
    >
      <LongText text={words} kind="prose" />
      {words !== failure.message && (
        <FoldedText summary="As the provider sent it" text={failure.message} kind="mono" />
      )}
      {attempts
        .filter(({ hadText }) => hadText)
        .map(({ key, seq }) => (
          <Aside key={seq} title="The streamed text was discarded" text={model.streamed.get(key) ?? ''} />
        ))}
    </ErrorBlock>
  );
}

/** The message in an error that a provider sent as JSON; other messages as they are. */
function messageIn(text: string): string {
  const start = text.indexOf('{');
  if (start === -1) return text;
  try {
    const { error, message } = JSON.parse(text.slice(start));
    const found = error?.message ?? message;
    return typeof found === 'string' && found !== '' ? `${text.slice(0, start)}${found}` : text;
  } catch {
    return text;
  }
}

const FOLLOWED: Readonly<Record<string, string>> = {
  'tool.interrupted': 'was found started and without a result',
  'tool.doubted': 'is in doubt: it is unknown whether it happened',
  'tool.started': 'was started again, with the same key',
  'tool.settled': 'has a result: its tool knew what had happened',
  'doubt.resolved': 'was resolved by a person',
};

function CrashCard({ block }: { block: Of<'crash'> }) {
  const { model } = useDesk();
  const { gone, by, path, lastSeq, lastAt, at, running, followed } = block;
  const name = (callId: string): string => formatLine(model.story.nameOf(callId), 60);
  const shown = followed.filter(({ seq }) => seq <= model.at.value);
  return (
    <ErrorBlock title={`${shortenOwnerName(gone)} died or fell silent`} at={lastAt} seq={block.seq}>
      <p>
        On disk: entry {lastSeq}, <span class="mono">{showSafe(path)}</span>
        {running.length === 0
          ? '. No call was running.'
          : `. Started, without a result: ${running.map(name).join(', ')}.`}
      </p>
      <p>
        {showSafe(shortenOwnerName(by))} took over after {formatDuration(at - lastAt)}.
      </p>
      {shown.length > 0 && (
        <ul>
          {shown.map(({ seq, callId }) => {
            const type = model.entry(seq)?.type ?? '';
            return (
              <li key={seq}>
                <Button class="quiet link" label={`entry ${seq}`} onClick={() => model.choose(seq)} />{' '}
                {name(callId)} {FOLLOWED[type] ?? showSafe(type)}
              </li>
            );
          })}
        </ul>
      )}
    </ErrorBlock>
  );
}

type AsideProps = { kind?: 'prose' | 'mono'; title: string; text: string; isLive?: true };

function Aside({ kind = 'mono', title, text, isLive }: AsideProps) {
  const summary = showSafe(title);
  return (
    <div class="block">
      {text === '' && !isLive ? (
        <p class="muted">{summary}</p>
      ) : (
        <FoldedText summary={summary} open={isLive === true} text={text} kind={kind} />
      )}
    </div>
  );
}

function LiveBlocks() {
  const { model } = useDesk();
  const live = model.live.value;
  const answering = model.answering.value;
  if (answering !== '') return <Reply mark="handed over, writing…" text={answering} />;
  if (live === null) return null;
  const mark = `${model.path.value === 'turn.planning' ? 'before tool calls, ' : ''}writing…`;
  return Array.from(live.parts, ([place, { kind, name, text }]) => {
    const isCall = kind === 'call';
    if (isCall) return <Aside key={place} title={`Call of ${name}…`} text={text} isLive />;
    if (text === '') return null;
    if (kind === 'reasoning') return <Aside key={place} kind="prose" title="Reasoning…" text={text} isLive />;
    return <Reply key={place} mark={mark} text={text} />;
  });
}

type WhoProps = { name: string; at?: number; mark?: string };

function Reply({
  name = 'agent',
  text,
  children,
  ...who
}: Partial<WhoProps> & { text: string; children?: ComponentChildren }) {
  return (
    <div class="block reply">
      <Who name={name} {...who} />
      <Markdown text={text} />
      {children}
    </div>
  );
}

function Who({ name, at, mark }: WhoProps) {
  return (
    <p class="who">
      <Safe in="strong" text={name} />
      {mark && <span class="mark">{mark}</span>}
      {at !== undefined && <time>{formatTimeOfDay(at)}</time>}
    </p>
  );
}

function Composer() {
  const desk = useDesk();
  const { model } = desk;
  const key = `${model.runId}/message`;
  const draft = useDraft(key);
  const ended = model.ended.value;
  const view = model.view.value;
  const asks = view?.open.some(({ kind, runId }) => kind === 'approval' && runId === model.runId) === true;
  const send = async (): Promise<string | null> => {
    const message = draft.value.trim();
    if (message === '') return null;
    const refusal = await (ended ? problemOf(() => continueRun(message)) : desk.act('send', { message }));
    if (refusal === null) {
      draft.value = '';
      dropDrafts(key);
    }
    return refusal;
  };
  const continueRun = async (input: string): Promise<void> => {
    const next = await startRun({ ...omitUndefined({ agent: view?.agent }), input, continues: model.runId });
    navigate(runPath(next.runId));
  };
  return (
    <Form class="composer" isPrimary={false} label={ended ? 'Continue in a new run' : 'Send'} run={send}>
      <DraftField
        label="Message"
        spoken
        draft={draft}
        draftKey={key}
        rows={2}
        placeholder="Message to the agent"
      />
      {asks && !ended && (
        <p class="muted hint">
          A message waits until the calls are decided, unless the agent lets it replace them.
        </p>
      )}
    </Form>
  );
}
