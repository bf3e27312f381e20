import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import { actingName, setActingName, tokenName } from '../data/caller.ts';
import { showSafe } from '../render/format.ts';
import { ProblemText } from './text.tsx';

/** How far the two presses of a decision are apart at least, in ms. */
const APART_MS = 600;

/** What a press asks, with a key that differs if anything about it does. Without words it acts at once. */
export type Confirmation = { words: string; key?: string; act(): Promise<unknown> };

/**
 * Asks before it acts.
 *
 * P1 The first press asks. A second press acts if it is `apartMs` after the press before it, by the times that their
 *    events have; Enter acts at once.
 * P2 Neither a repeat of a held key (`watchKeys` stops it) nor the second click of a double click is a press.
 * P3 What acts is what was asked: the question ends with another question, with an input, with Escape, and when the focus
 *    leaves the scope.
 */
export function useTwoPresses<Scope extends HTMLElement>(apartMs = APART_MS) {
  const ref = useRef<Scope>(null);
  const asked = useSignal<(Confirmation & { at: number }) | null>(null);
  const isBusy = useSignal(false);
  const act = async (question: Confirmation): Promise<void> => {
    asked.value = null;
    isBusy.value = true;
    await question.act();
    isBusy.value = false;
  };
  const end = () => (asked.value = null);
  return {
    asked: asked.value?.words ?? '',
    isBusy: isBusy.value,
    /** Counts a press, which asks `question`; `null`: there is nothing to ask. */
    press(event: Event, question: Confirmation | null): void {
      const isRepeated = event instanceof MouseEvent && event.detail > 1;
      if (isBusy.peek() || (isRepeated && question?.words !== '')) return;
      const before = asked.peek();
      end();
      if (question === null) return;
      if (question.words === '') return void act(question);
      const isSecond = before !== null && before.words === question.words && before.key === question.key;
      if (isSecond && event.timeStamp - before.at >= apartMs) return void act(question);
      asked.value = { ...question, at: event.timeStamp };
      if (ref.current?.contains(document.activeElement) !== true)
        ref.current?.querySelector('button')?.focus();
    },
    scope: {
      ref,
      onKeyDown(event: KeyboardEvent): void {
        const question = asked.peek();
        if (question === null) return;
        const isEnter = event.key === 'Enter' && !event.repeat && !event.ctrlKey && !event.metaKey;
        if (!isEnter && event.key !== 'Escape') return;
        event.preventDefault();
        event.stopPropagation();
        if (isEnter) void act(question);
        else end();
      },
      onFocusOut({ relatedTarget }: FocusEvent): void {
        if (!(relatedTarget instanceof Node && ref.current?.contains(relatedTarget))) end();
      },
      onInput: end,
    },
  };
}

type ActionButtonProps = {
  label: ComponentChildren;
  act(): Promise<unknown>;
  class?: string;
  /** Returns the label that asks for a second press; empty to act at once. */
  confirm?(): string;
  keys?: string;
};

export function ActionButton({ label, act, confirm, keys, class: name = '' }: ActionButtonProps) {
  const { asked, isBusy, press, scope } = useTwoPresses<HTMLSpanElement>(0);
  return (
    <span class="two-presses" {...scope}>
      <button
        type="button"
        class={`${name} ${asked === '' ? '' : 'asking'}`}
        aria-busy={isBusy}
        onClick={event => press(event, { words: confirm?.() ?? '', act })}
      >
        {asked || label}
        {keys !== undefined && asked === '' && (
          <span class="key" aria-hidden="true">
            {keys}
          </span>
        )}
      </button>
      {confirm && (
        <span class="spoken" role="status">
          {asked}
        </span>
      )}
    </span>
  );
}

type FormProps = {
  children: ComponentChildren;
  label: string;
  class?: string;
  isPrimary?: boolean;
  /** What is shown as wrong; without it, what the action resolved to. */
  problem?: string;
} & (
  | { /** Acts at once. Resolves to a problem for the person, or `null`. */ run(): Promise<string | null> }
  | { /** Returns what a press asks, or what is wrong. */ ask(): Confirmation | string }
);

/** A form with one button, which Ctrl+Enter in a field presses too, and the problem above it. */
export function Form({ children, label, class: name = '', isPrimary = true, ...does }: FormProps) {
  const { asked, isBusy, press, scope } = useTwoPresses<HTMLFormElement>();
  const refusal = useSignal('');
  const act = async (question: Confirmation): Promise<void> => {
    const problem = await question.act();
    refusal.value = typeof problem === 'string' ? problem : '';
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (scope.ref.current?.reportValidity() !== true) return;
    const question = 'ask' in does ? does.ask() : { words: '', act: does.run };
    refusal.value = typeof question === 'string' ? question : '';
    press(event, typeof question === 'string' ? null : { ...question, act: () => act(question) });
  };
  return (
    <form
      {...scope}
      class={name}
      onSubmit={event => event.preventDefault()}
      onKeyDown={event => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
        else scope.onKeyDown(event);
      }}
    >
      {children}
      <ProblemText text={does.problem ?? refusal.value} />
      {'ask' in does && <Asked words={asked} />}
      <button type="submit" class={isPrimary ? 'primary' : ''} aria-busy={isBusy} onClick={submit}>
        {label}
      </button>
    </form>
  );
}

/** What the first press of a decision asks; and who decides, if neither the server nor this browser knows. */
export function Asked({ words }: { words: string }) {
  return (
    <div class="asked">
      <p role="status">
        {words === '' ? null : (
          <>
            <strong>
              <bdi>{showSafe(words)}</bdi>
            </strong>{' '}
            <span class="muted">Press again, or Enter. Escape leaves it open.</span>
          </>
        )}
      </p>
      {words === '' ? null : <WhoDecides />}
    </div>
  );
}

function WhoDecides() {
  const isUnknown = useMemo(() => tokenName() === '' && actingName.peek().trim() === '', []);
  return isUnknown && <NameField label="Decided by" />;
}

/** The name that this browser decides with. It changes no form that it is in. */
export function NameField({ label }: { label: string }) {
  return (
    <label class="acting">
      <span>{label}</span>
      <input
        type="text"
        name="by"
        maxLength={80}
        placeholder="your name"
        autocomplete="name"
        value={actingName.value}
        onInput={event => {
          event.stopPropagation();
          setActingName(event.currentTarget.value);
        }}
      />
    </label>
  );
}
