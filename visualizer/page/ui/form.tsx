import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { showSafely } from '../render/show-safely.ts';

type FormProps = { children: ComponentChildren; label: string; run(): Promise<unknown>; problem?: string };

/** A form with one button, which is busy while `run` works. `problem` is shown above the button. */
export function Form({ children, label, run, problem }: FormProps) {
  const busy = useSignal(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy.peek()) return;
    busy.value = true;
    await run();
    busy.value = false;
  };
  return (
    <form onSubmit={event => void submit(event)}>
      {children}
      <p class="problem" role="alert">
        {problem === undefined ? '' : showSafely(problem)}
      </p>
      <button type="submit" class="primary" aria-busy={busy.value}>
        {label}
      </button>
    </form>
  );
}
