import type { ComponentChildren } from 'preact';
import { showSafely } from '../render/show-safely.ts';
import { Asked } from './asked.tsx';
import { type Question, useTwoPresses } from './two-presses.ts';

type FormProps = {
  children: ComponentChildren;
  label: string;
  problem?: string;
} & (
  | { run(): Promise<unknown> }
  | { /** Returns what a press asks; `null` if there is a problem. */ ask(): Question | null }
);

/** Ctrl+Enter in a field is a press of the form's button. */
export function submitOnEnter(event: KeyboardEvent & { currentTarget: HTMLFormElement }): void {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
}

/** A form with one button, which is busy while the form's action works. `problem` is shown above the button. */
export function Form({ children, label, problem, ...does }: FormProps) {
  const { asked, isBusy, press, scope } = useTwoPresses<HTMLFormElement>();
  const submit = (event: Event): void => {
    event.preventDefault();
    if (scope.ref.current?.reportValidity() === true)
      press(event, 'ask' in does ? does.ask() : { words: '', act: does.run });
  };
  return (
    <form
      {...scope}
      onSubmit={event => event.preventDefault()}
      onKeyDown={event => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
        else scope.onKeyDown(event);
      }}
    >
      {children}
      <p class="problem" role="alert">
        {problem === undefined ? '' : showSafely(problem)}
      </p>
      {'ask' in does ? <Asked words={asked} /> : null}
      <button type="submit" class="primary" aria-busy={isBusy} onClick={submit}>
        {label}
      </button>
    </form>
  );
}
