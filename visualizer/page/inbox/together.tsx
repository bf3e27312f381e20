import { useSignal } from '@preact/signals';
import { isJsonObject } from '../../../protocol/json.ts';
import { type DecisionAnswer, decisionCommand } from '../../../protocol/open/answer.ts';
import { isOpenItem } from '../../../protocol/run-view.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { isMine } from '../data/caller.ts';
import type { InboxItem, JsonOpenCall } from '../data/request.ts';
import { sendCommand } from '../data/send-command.ts';
import { describeInputs, formatAmount, sumAmounts } from '../render/describe-call.ts';
import { formatCount, formatLine } from '../render/format.ts';
import { rejectionFor, sendOwn } from '../run/decisions/open-decisions.tsx';
import { Button } from '../ui/button.tsx';
import { dropDrafts, TextForm } from '../ui/draft-field.tsx';
import { Panels } from '../ui/panels.tsx';
import { Safe } from '../ui/text.tsx';
import { Asked, type Confirmation, useTwoPresses } from '../ui/two-presses.tsx';
import { ReadableValue } from '../ui/value.tsx';
import { inboxKeyOf, nameOf } from './inbox-rows.ts';

type Approval = InboxItem & { call: JsonOpenCall };

/** What one press may decide for all: approvals of this person, who has not approved them yet. */
function isDecidable(item: InboxItem): item is Approval {
  return isOpenItem(item.call) && item.call.kind === 'approval' && isMine(item.call);
}

const REJECT = 'Reject…';
const DRAFT = 'inbox/together/';

type TogetherProps = {
  items: readonly InboxItem[];
  onDone(keys: readonly string[], words: readonly string[]): Promise<void>;
  onClear(): void;
};

/** Several selected decisions, approved or rejected together. The first press shows every input in full. */
export function Together({ items, onDone, onClear }: TogetherProps) {
  const able = items.filter(isDecidable);
  const others = items.length - able.length;
  const sum = sumAmounts(able.map(({ call }) => call.input));
  const amount = sum === undefined ? '' : ` (${formatAmount(sum)})`;
  const open = useSignal<string | null>(null);
  const { asked, isBusy, press, scope } = useTwoPresses<HTMLDivElement>();
  const calls = formatCount(able.length, 'call');

  const decide = (answer: DecisionAnswer, done: string, words: string): Confirmation => {
    const commands = able.map(({ call }) => decisionCommand(call, answer));
    return {
      words,
      key: JSON.stringify(commands),
      act: async () => {
        const keys: string[] = [];
        const problems: string[] = [];
        for (const item of able) {
          const problem = await send(item, answer);
          if (problem === null) keys.push(inboxKeyOf(item));
          else
            problems.push(
              `${formatLine(nameOf(item.call), 40)} ${describeInputs(item.call.input)}: ${problem}`,
            );
        }
        const of = problems.length === 0 ? '' : ` of ${able.length}`;
        dropDrafts(DRAFT);
        await onDone(keys, [`${done} ${keys.length}${of}.`, ...problems]);
        return null;
      },
    };
  };
  const approve = (): Confirmation =>
    decide({ type: 'approve' }, 'Approved', `Approve these ${calls}${amount}?`);
  const reject = (reason: string): Confirmation =>
    decide(rejectionFor(reason), 'Rejected', `Reject these ${calls}${amount}?`);
  useShortcuts('Decide', [
    {
      keys: ['a'],
      does: 'Approve what is selected',
      run: event => able.length > 0 && open.peek() === null && press(event, approve()),
    },
    { keys: ['r'], does: 'Reject what is selected', run: () => (open.value = REJECT) },
  ]);
  const isFull = asked !== '' || open.value !== null;
  return (
    <article class="decision together" aria-label={`${items.length} selected`}>
      <header>
        <h2>{`${items.length} selected`}</h2>
        {others > 0 && (
          <p class="muted">
            {`${others === 1 ? 'One' : others} of them cannot be decided together with others: only approvals that wait for you can.`}
          </p>
        )}
      </header>
      <section
        class="inbox-body"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
        tabIndex={0}
        aria-label="What is selected"
      >
        <ol class="together-list" aria-label={isFull ? 'Every input in full' : 'In short'}>
          {able.map(item => (
            <li key={inboxKeyOf(item)}>
              <p>
                <Safe text={item.call.name} class="mono" /> <Safe text={item.title} class="muted" />
              </p>
              {isFull ? (
                <>
                  {item.call.reason !== undefined && <Safe in="p" class="muted" text={item.call.reason} />}
                  {isJsonObject(item.call.input) && Object.keys(item.call.input).length === 0 ? (
                    <p class="muted">No input.</p>
                  ) : (
                    <ReadableValue value={item.call.input} path="input" />
                  )}
                </>
              ) : (
                <Safe in="p" text={describeInputs(item.call.input)} />
              )}
            </li>
          ))}
        </ol>
      </section>
      <footer>
        {able.length === 0 ? (
          <Button label="Deselect" onClick={onClear} />
        ) : (
          <Panels
            open={open}
            panels={[
              {
                label: REJECT,
                draftKey: DRAFT,
                form: (
                  <TextForm
                    label={`Reject ${able.length}${amount}`}
                    field="Reason for all (shown to the models)"
                    draftKey={`${DRAFT}reason`}
                    ask={text => reject(text.trim())}
                  />
                ),
              },
            ]}
            after={<Button label="Deselect" onClick={onClear} />}
          >
            <div class="two-presses" {...scope}>
              <button
                type="button"
                class="primary"
                aria-busy={isBusy}
                onClick={event => press(event, approve())}
              >
                {`Approve ${able.length}${amount}`}
              </button>
              <Asked words={asked} />
            </div>
          </Panels>
        )}
      </footer>
    </article>
  );
}

/** Resolves to why the command was refused, or `null`. */
async function send({ call, runId }: Approval, answer: DecisionAnswer): Promise<string | null> {
  let problem: string | null = null;
  await sendOwn(call, async () => {
    const { type, runId: _, ...body } = decisionCommand(call, answer);
    const outcome = await sendCommand(type, body, { runId, after: 0, onLost: () => {} });
    problem = outcome.type === 'taken' ? null : outcome.message;
    return problem;
  });
  return problem;
}
