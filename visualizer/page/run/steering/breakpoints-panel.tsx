import { describeBreakpoint } from '../../../../protocol/debugger/describe-breakpoint.ts';
import { showSafely } from '../../render/show-safely.ts';
import { ActionButton } from '../../ui/action-button.tsx';
import { Panels } from '../../ui/panels.tsx';
import { type Desk, useDesk } from '../desk.ts';
import { BreakpointEditor } from './breakpoint-editor.tsx';
import { breakpointsOf, heldAt, keepBreakpoints } from './breakpoints.ts';

const ADD = 'Add a breakpoint…';

/** The label of the open panel: the editor is open where the desk has what it starts with. */
const openOf = ({ breaking }: Desk) => ({
  get value() {
    return breaking.value === null ? null : ADD;
  },
  set value(label) {
    breaking.value = label === null ? null : {};
  },
  peek: () => (breaking.peek() === null ? null : ADD),
});

/** The run's breakpoints, with what operators can do with them. */
export function Breakpoints() {
  const desk = useDesk();
  const { breaking, isSteered } = desk;
  const list = breakpointsOf(desk);
  const holding = heldAt(desk)?.by;
  if (list.length === 0 && !isSteered) return null;
  const start = breaking.value;
  const draftKey = `${desk.model.runId}/break ${JSON.stringify(start)}`;
  const make = () =>
    start === null ? null : <BreakpointEditor key={draftKey} start={start} draftKey={draftKey} />;
  return (
    <section class="breakpoints" aria-label="Breakpoints">
      <h2>
        Breakpoints
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
      {isSteered ? <Panels panels={[{ label: ADD, draftKey, make }]} open={openOf(desk)} /> : null}
    </section>
  );
}
