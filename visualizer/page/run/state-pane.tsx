import { useSignal } from '@preact/signals';
import { diffStates, sketchValue } from '../model/state-diff.ts';
import { formatJson } from '../render/format.ts';
import { shorten } from '../render/show-safely.ts';
import { Details } from '../ui/details.tsx';
import { LongText } from '../ui/text.tsx';
import { useDesk } from './desk.ts';

const SHORT = 90;

/** The state at the cursor: what the entry changed, or all of it. */
export function StatePane() {
  const { model } = useDesk();
  const all = useSignal(false);
  const [before, after] = [model.before.value.context, model.shown.value.context];
  const { changes, keys } = diffStates(before, after);
  return (
    <section class="pane state-pane">
      <h2>
        {all.value ? `State at entry ${model.at.value}` : `What entry ${model.at.value} changed`}
        <span class="muted">{all.value ? `${keys} keys` : `${changes.length} of ${keys} keys`}</span>
        <button
          type="button"
          class="quiet"
          aria-pressed={all.value}
          onClick={() => {
            all.value = !all.value;
          }}
        >
          Whole state
        </button>
      </h2>
      {all.value ? (
        <dl class="state-keys">
          {Object.entries(after ?? {}).map(([key, value]) => (
            <div key={key}>
              <Details
                summary={
                  <>
                    <dt class="mono">{key}</dt>
                    <dd>{shorten(sketchValue(value), SHORT)}</dd>
                  </>
                }
              >
                {() => <LongText text={formatJson(value)} kind="mono" />}
              </Details>
            </div>
          ))}
        </dl>
      ) : (
        <dl class="state-diff">
          {changes.map(({ key, before: was, after: is }) => (
            <div key={key}>
              <dt class="mono">{key}</dt>
              <dd>
                <del>{shorten(sketchValue(was), SHORT)}</del>
                <ins>{shorten(sketchValue(is), SHORT)}</ins>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {all.value || changes.length > 0 ? null : (
        <p class="muted">Nothing: this entry is not part of the state.</p>
      )}
    </section>
  );
}
