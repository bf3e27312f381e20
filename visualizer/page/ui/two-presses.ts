import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';

/** How far the two presses of a decision are apart at least, in ms. */
const APART_MS = 600;

/**
 * What a press asks: in words, and as a key that is another one if anything about it is different. Without words it acts
 * at once.
 */
export type Question = { words: string; key?: string; act(): Promise<unknown> };

/** What two presses need of the element that has the control, and of the control. */
export type TwoPresses<Scope extends HTMLElement> = {
  /** What the first press asks; empty if nothing is asked. */
  asked: string;
  isBusy: boolean;
  /** Counts a press, which asks `question`; `null`: there is nothing to ask. */
  press(event: Event, question: Question | null): void;
  scope: {
    ref: { current: Scope | null };
    onKeyDown(event: KeyboardEvent): void;
    onFocusOut(event: FocusEvent): void;
    onInput(): void;
  };
};

/**
 * Asks before it acts.
 *
 * P1 The first press asks. A second press acts if it is `apartMs` after the press before it, by the times that their
 *    events have; Enter acts at once.
 * P2 Neither a repeat of a held key (`watchKeys` stops it) nor the second click of a double click is a press.
 * P3 What acts is what was asked: the question ends with another question, with an input, with Escape, and when the focus
 *    leaves the scope.
 */
export function useTwoPresses<Scope extends HTMLElement>(apartMs = APART_MS): TwoPresses<Scope> {
  const ref = useRef<Scope>(null);
  const asked = useSignal<(Question & { at: number }) | null>(null);
  const isBusy = useSignal(false);
  const act = async (question: Question): Promise<void> => {
    asked.value = null;
    isBusy.value = true;
    await question.act();
    isBusy.value = false;
  };
  const end = (): void => {
    asked.value = null;
  };
  return {
    asked: asked.value?.words ?? '',
    isBusy: isBusy.value,
    press(event, question) {
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
      onKeyDown(event) {
        const question = asked.peek();
        if (question === null) return;
        const isEnter = event.key === 'Enter' && !event.repeat && !event.ctrlKey && !event.metaKey;
        if (!isEnter && event.key !== 'Escape') return;
        event.preventDefault();
        event.stopPropagation();
        if (isEnter) void act(question);
        else end();
      },
      onFocusOut({ relatedTarget }) {
        if (!(relatedTarget instanceof Node && ref.current?.contains(relatedTarget))) end();
      },
      onInput: end,
    },
  };
}
