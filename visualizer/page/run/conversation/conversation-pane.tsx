import { useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { mayOperate } from '../../data/caller.ts';
import { countBlocks, inheritedBlocks, replyText, unreadIds } from '../../model/conversation.ts';
import type { Block } from '../../model/run-story.ts';
import { formatClock } from '../../render/format.ts';
import { showSafely } from '../../render/show-safely.ts';
import { Details } from '../../ui/details.tsx';
import { Diff } from '../../ui/diff.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { LongText, Safe } from '../../ui/text.tsx';
import { useDesk } from '../desk.ts';
import { CallCard } from './call-card.tsx';
import { Composer } from './composer.tsx';
import { CrashCard } from './crash-card.tsx';
import { FailureCard } from './failure-card.tsx';

/** The most blocks in the document at first, and how many more each click adds. */
const SHOWN = 30;
const NEAR_PX = 60;

/** The conversation up to the cursor. It stays at its end while a person does not scroll back. */
export function ConversationPane() {
  const { model, source } = useDesk();
  const more = useSignal(0);
  const box = useRef<HTMLElement>(null);
  const atEnd = useRef(true);
  const { blocks } = model.story;
  const count = countBlocks(blocks, model.at.value);
  const first = Math.max(0, count - SHOWN - more.value);
  const shown = blocks.slice(first, count);
  const inherited = first === 0 ? inheritedBlocks(model) : [];
  void model.live.value;
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
          {first === 0 ? null : (
            <button
              type="button"
              class="quiet"
              onClick={() => {
                atEnd.current = false;
                more.value += SHOWN;
              }}
            >
              Show earlier ({first} more)
            </button>
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
          {model.isAtEnd.value ? <LiveBlocks /> : null}
        </div>
      </section>
      {source.live && mayOperate() ? <Composer /> : null}
    </>
  );
}

function BlockView({ block }: { block: Block }) {
  const { model } = useDesk();
  switch (block.kind) {
    case 'message': {
      const unread = block.id !== undefined && unreadIds(model.view.value).has(block.id);
      return (
        <div class="block message">
          <Who
            name={block.role === 'user' ? (block.by ?? 'user') : block.role}
            at={block.at}
            mark={unread ? 'arrived too late to be read' : ''}
          />
          <LongText text={block.text} kind="prose" />
          {block.others.map((kind, index) => (
            <p key={index} class="muted">
              ({kind})
            </p>
          ))}
        </div>
      );
    }
    case 'reply': {
      const { text, before } = replyText(block, model);
      return (
        <div class="block reply">
          <Who name="agent" at={block.at} mark={markOf(block, model.at.value)} />
          <Markdown text={text} />
          {before === null ? null : (
            <Details summary="The model's words, before the finishers">
              {() => <LongText text={before} kind="mono" />}
            </Details>
          )}
        </div>
      );
    }
    case 'edit':
      return (
        <div class="block aside">
          <Details open summary={showSafely(block.title)}>
            {() => <Diff before={block.before} after={block.after} />}
          </Details>
        </div>
      );
    case 'reasoning':
      return (
        <div class="block reasoning">
          <Details summary="Reasoning">{() => <LongText text={block.text} kind="prose" />}</Details>
        </div>
      );
    case 'aside':
      return (
        <div class="block aside">
          {block.text === '' ? (
            <p class="muted">{showSafely(block.title)}</p>
          ) : (
            <Details summary={showSafely(block.title)}>
              {() => <LongText text={block.text} kind="mono" />}
            </Details>
          )}
        </div>
      );
    case 'call':
      return <CallCard record={block.record} />;
    case 'failure':
      return <FailureCard block={block} />;
    case 'crash':
      return <CrashCard crash={block.crash} />;
  }
}

function markOf({ preamble, replacedAt }: Extract<Block, { kind: 'reply' }>, at: number): string {
  if (replacedAt !== undefined && replacedAt <= at) return 'replaced by an edit';
  return preamble ? 'before tool calls' : '';
}

/** Streamed output that is not in the journal yet. */
function LiveBlocks() {
  const { model } = useDesk();
  const live = model.live.value;
  if (live === null) return null;
  const preamble = model.path.value === 'turn.planning';
  return (
    <>
      {live.reasoning === '' ? null : (
        <div class="block reasoning">
          <Details summary="Reasoning…" open>
            {() => <LongText text={live.reasoning} kind="prose" />}
          </Details>
        </div>
      )}
      {live.text === '' ? null : (
        <div class="block reply">
          <Who name="agent" mark={`${preamble ? 'before tool calls, ' : ''}writing…`} />
          <Markdown text={live.text} />
        </div>
      )}
    </>
  );
}

function Who({ name, at, mark }: { name: string; at?: number; mark?: string }) {
  return (
    <p class="who">
      <strong>
        <Safe text={name} />
      </strong>
      {mark ? <span class="mark">{mark}</span> : null}
      {at === undefined ? null : <time>{formatClock(at)}</time>}
    </p>
  );
}
