import { describeBreakpoint } from '../../../../protocol/debugger/describe-breakpoint.ts';
import { showSafely } from '../../render/show-safely.ts';
import { ActionButton } from '../../ui/action-button.tsx';
import { useDesk } from '../desk.ts';
import { BreakpointEditor } from './breakpoint-editor.tsx';
import { breakpointsOf, heldAt, keepBreakpoints } from './breakpoints.ts';

/** The run's breakpoints, with what operators can do with them. */
export function Breakpoints() {
  const desk = useDesk();
  const { breaking, isSteered } = desk;
  const list = breakpointsOf(desk);
  const holding = heldAt(desk)?.by;
  if (list.length === 0 && !isSteered) return null;
  const start = breaking.value;
  return (
    <section class="breakpoints" aria-label="Breakpoints">
      <h2>
        Breakpoints
        {isSteered ? (
          <button
            type="button"
            class="quiet"
            aria-expanded={start !== null}
            onClick={() => {
              breaking.value = start === null ? {} : null;
            }}
          >
            Add a breakpoint…
          </button>
        ) : null}
        {isSteered && list.length > 1 ? (
          <ActionButton class="quiet" act={() => keepBreakpoints(desk, () => false)}>
            Clear all
          </ActionButton>
        ) : null}
      </h2>
      <ul>
        {list.map(breakpoint => (
          <li key={breakpoint.id} class={breakpoint === holding ? 'holding' : ''}>
            <bdi>{showSafely(describeBreakpoint(breakpoint))}</bdi>
            {isSteered ? (
              <ActionButton class="quiet" act={() => keepBreakpoints(desk, id => id !== breakpoint.id)}>
                Remove<span class="spoken"> {showSafely(describeBreakpoint(breakpoint))}</span>
              </ActionButton>
            ) : null}
          </li>
        ))}
      </ul>
      {isSteered && start !== null ? <BreakpointEditor key={JSON.stringify(start)} start={start} /> : null}
    </section>
  );
}
