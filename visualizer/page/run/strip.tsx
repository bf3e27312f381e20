import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { useShortcuts } from '../app/keyboard.ts';
import type { CallEvent } from '../model/call-facts.ts';
import type { RunStory } from '../model/run-story.ts';
import type { ActivityKind, TimeLine } from '../model/time-line.ts';
import { formatTimeOfDay } from '../render/format.ts';
import { Button, Icon } from '../ui/button.tsx';
import { ActionButton } from '../ui/two-presses.tsx';
import { useDesk } from './desk.ts';
import { FindBar } from './finding/find-bar.tsx';

const WIDTH = 10_000;
const PLAY_MS = 350;
const PAGE = 20;

export function Strip() {
  const desk = useDesk();
  const { model, playing, finding } = desk;
  const at = model.at.value;
  const last = model.last.value;
  const goTo = (seq: number): void => desk.goTo(seq);
  const move = (by: number): void => goTo(model.at.peek() + by);
  const find = (): void => {
    finding.value ??= '';
    document.querySelector<HTMLElement>('.find input')?.focus();
  };
  const togglePlay = (): void => {
    if (!playing.peek() && model.at.peek() === model.last.peek()) model.choose(1);
    playing.value = !playing.peek();
  };
  usePlaying();
  useShortcuts('Cursor', [
    { keys: ['ArrowLeft', 'h'], does: 'previous entry', repeats: true, run: () => move(-1) },
    { keys: ['ArrowRight', 'l'], does: 'next entry', repeats: true, run: () => move(1) },
    { keys: ['Home'], does: 'first entry', run: () => goTo(1) },
    { keys: ['End'], does: 'last entry, and follow the run', run: () => model.choose(null) },
    { keys: ['PageUp'], does: `${PAGE} entries back`, repeats: true, run: () => move(-PAGE) },
    { keys: ['PageDown'], does: `${PAGE} entries on`, repeats: true, run: () => move(PAGE) },
    { keys: ['p'], does: 'play or stop', run: togglePlay },
  ]);
  useShortcuts('Find', [
    { keys: ['/'], does: 'find in the journal and the conversation', run: find },
    { keys: ['n'], does: 'next error', repeats: true, run: () => desk.goAlong(model.story.errors, 1) },
    { keys: ['N'], does: 'previous error', repeats: true, run: () => desk.goAlong(model.story.errors, -1) },
  ]);
  const playOrStop = playing.value ? (['Stop playing', 'stop'] as const) : (['Play', 'play'] as const);
  const buttons = [
    ['First entry', 'first', () => goTo(1)],
    ['Previous entry', 'back', () => move(-1)],
    [...playOrStop, togglePlay],
    ['Next entry', 'next', () => move(1)],
    ['Last entry', 'last', () => model.choose(null)],
  ] as const;
  const event = model.entry(at);
  return (
    <section class="strip" aria-label="Time">
      <div class="transport">
        {buttons.map(([label, icon, act], place) => (
          <Button key={place} aria-label={label} label={<Icon name={icon} />} onClick={act} />
        ))}
      </div>
      <Track onChoose={goTo} />
      <p class="place">
        <output>
          entry {formatNumber(at)} of {formatNumber(last)}
        </output>
        <span class="muted">
          {model.chosen.value === null ? 'following' : event && formatTimeOfDay(event.at)}
        </span>
      </p>
      {finding.value === null ? (
        <ActionButton label="Find" class="quiet" keys="/" act={async () => find()} />
      ) : (
        <FindBar />
      )}
    </section>
  );
}

function usePlaying(): void {
  const { model, playing } = useDesk();
  const on = playing.value;
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => {
      const next = model.at.peek() + 1;
      if (next >= model.last.peek()) {
        playing.value = false;
        model.choose(null);
      } else model.choose(next);
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [on, model, playing]);
}

function Track({ onChoose }: { onChoose(seq: number): void }) {
  const {
    model,
    timeLine: { value: line },
  } = useDesk();
  const track = useRef<HTMLDivElement>(null);
  const at = model.at.value;
  const choose = (event: PointerEvent): void => {
    const box = track.current?.getBoundingClientRect();
    if (box !== undefined && box.width > 0) onChoose(line.entryAt((event.clientX - box.left) / box.width));
  };
  const event = model.entry(at);
  return (
    <div
      ref={track}
      class="track"
      role="slider"
      tabIndex={0}
      aria-label="Entry"
      aria-valuemin={1}
      aria-valuemax={Math.max(1, model.last.value)}
      aria-valuenow={Math.max(1, at)}
      aria-valuetext={event === undefined ? 'no entry' : `entry ${at}, ${event.type}`}
      onPointerDown={event => {
        event.currentTarget.setPointerCapture(event.pointerId);
        choose(event);
      }}
      onPointerMove={event => {
        if (event.buttons === 1) choose(event);
      }}
    >
      <Bars line={line} story={model.story} />
      <Hits line={line} />
      <span class="cursor" style={{ '--at': String(line.placeOf(at)) }}>
        <b>{at}</b>
      </span>
    </div>
  );
}

/** The entries that have the text that is searched. */
function Hits({ line }: { line: TimeLine }) {
  const hits = useDesk().hits.value;
  return useMemo(
    () =>
      hits.length > 0 && (
        <Drawing class="bars over">
          <Ticks class="ticks hits" line={line} seqs={hits} shape="36v7" />
        </Drawing>
      ),
    [hits, line],
  );
}

function Drawing({ children, class: name }: { children: ComponentChildren; class: string }) {
  return (
    <svg class={name} viewBox={`0 0 ${WIDTH} 44`} preserveAspectRatio="none" aria-hidden="true">
      {children}
    </svg>
  );
}

type TicksProps = { class: string; line: TimeLine; seqs: readonly number[]; shape: string };

/** One path, with one tick for entries that are too close to be told apart. */
function Ticks({ class: name, line, seqs, shape }: TicksProps) {
  const places = new Set(seqs.map(seq => Math.round((line.placeOf(seq) * WIDTH) / 10) * 10));
  const d = [...places].map(x => `M${x} ${shape}`).join('');
  return <path class={name} d={d} vector-effect="non-scaling-stroke" />;
}

/** Drawn again only when the journal grows: one path for each kind. */
function Bars({ line, story }: { line: TimeLine; story: RunStory }) {
  return useMemo(() => drawBars(line, story), [line]);
}

function drawBars(line: TimeLine, story: RunStory) {
  const paths = new Map<ActivityKind, string>();
  for (const { kind, from, to } of line.spans) {
    const [x, width] = [Math.round(from * WIDTH), Math.max(8, Math.round((to - from) * WIDTH))];
    paths.set(kind, `${paths.get(kind) ?? ''}M${x} 6h${width}v16h${-width}z`);
  }
  const entries = story.activities.map(({ seq }) => seq);
  const copied = line.spans.find(({ kind }) => kind === 'copied');
  const decisions = [...story.calls.values()].flatMap(({ told }) => told.filter(isDecision));
  const placeOf = (seq: number) => ({ '--at': String(line.placeOf(seq)) });
  const breaks = story.rows.filter(row => 'broken' in row);
  const crashes = story.blocks.filter(({ kind }) => kind === 'crash');
  return (
    <>
      <Drawing class="bars">
        {[...paths].map(([kind, d]) => (
          <path key={kind} class={`activity tone-${kind}`} d={d} />
        ))}
        <Ticks class="ticks" line={line} seqs={entries} shape="27v7" />
        <Ticks class="ticks errors" line={line} seqs={story.errors} shape="25v11" />
      </Drawing>
      {copied && (
        <span
          class="hatched"
          title="Before the fork: copied, not run again"
          style={{ '--to': String(copied.to) }}
        />
      )}
      {crashes.slice(-40).map(({ seq }) => (
        <span key={seq} class="crash-mark" title={`Entry ${seq}: a process had died`} style={placeOf(seq)}>
          <Icon name="crash" />
        </span>
      ))}
      {breaks.slice(-40).map(({ seq }) => (
        <span key={seq} class="break-mark" style={placeOf(seq)} />
      ))}
      {decisions.slice(-40).map(({ seq }) => (
        <span key={seq} class="decision-mark" style={placeOf(seq)} />
      ))}
    </>
  );
}

function isDecision(told: CallEvent): boolean {
  if (told.type === 'note') return told.event.type === 'doubt.resolved';
  if (told.type !== 'call.settled') return told.type === 'call.decided';
  return told.by === 'resolved' || (told.by === 'answer' && told.call.executedBy === 'engine');
}
