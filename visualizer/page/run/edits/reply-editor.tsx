import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { canonicalJson, type JsonValue, omitUndefined } from '../../../../protocol/json.ts';
import { formatReply, showSafe } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import {
  editableJson,
  jsonRows,
  keepDraft,
  readDraft,
  readDraftJson,
  TextField,
} from '../../ui/draft-field.tsx';
import { Diff } from '../../ui/text.tsx';
import { Form } from '../../ui/two-presses.tsx';

/** A call of an edited reply. Without `callId`, it is new. */
type EditedCall = { callId?: string; name: string; input: JsonValue };

type Reply = { text: string; calls: readonly EditedCall[] };

/** What changed in a reply, as the members of the command `edit-turn`. A call that `calls` leaves out is dropped. */
type ReplyEdit = { text?: string; calls?: EditedCall[] };

type Row = { callId?: string; name: string; input: string; isDropped?: boolean };
type Draft = { text: string; rows: readonly Row[] };

type ReplyEditorProps = {
  submit: string;
  draftKey: string;
  reply: Reply;
  tools: readonly string[];
  /** Sends the edit. Resolves to a problem for the person, or `null`; the caller drops the draft. */
  send(edit: ReplyEdit): Promise<string | null>;
};

/** Edits a reply: its text and its calls, with the changes below. What was typed is kept until it is accepted. */
export function ReplyEditor({ submit, draftKey, reply, tools, send }: ReplyEditorProps) {
  const typed = readDraft(draftKey);
  const draft = useSignal<Draft>(typed === null ? draftOf(reply) : JSON.parse(typed));
  const refusal = useSignal('');
  const { text, rows } = draft.value;
  const change = (next: Partial<Draft>): void => {
    draft.value = { ...draft.peek(), ...next };
    keepDraft(draftKey, JSON.stringify(draft.peek()));
  };
  const changeRow = (place: number, next: Partial<Row>): void =>
    change({ rows: rows.map((row, index) => (index === place ? { ...row, ...next } : row)) });
  const kept = rows.filter(({ isDropped }) => isDropped !== true);
  const problemOf = ({ callId, input, isDropped }: Row): string => {
    if (isDropped === true) return '';
    const read = readDraftJson(input);
    if ('problem' in read) return read.problem;
    return callId !== undefined && refusal.value.includes(callId) ? refusal.value : '';
  };
  const run = async (): Promise<null> => {
    const calls = kept.flatMap(({ callId, name, input }): EditedCall[] => {
      const read = readDraftJson(input);
      return 'problem' in read ? [] : [{ name, input: read.value, ...omitUndefined({ callId }) }];
    });
    refusal.value = '';
    if (calls.length < kept.length) return null;
    const edit = omitUndefined({
      text: text === reply.text ? undefined : text,
      calls: keyOf(calls) === keyOf(reply.calls) ? undefined : calls,
    });
    refusal.value = Object.keys(edit).length === 0 ? 'Nothing was changed.' : ((await send(edit)) ?? '');
    return null;
  };
  const editor = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const panel = editor.current?.closest('.panel');
    if (panel?.contains(document.activeElement) === false) panel.querySelector('textarea')?.focus();
  }, []);
  const problem = kept.some(row => problemOf(row) === refusal.value) ? '' : refusal.value;
  return (
    <Form label={submit} run={run} problem={problem}>
      <div ref={editor} class="edit-columns">
        <div class="edit-fields">
          <TextField label="Text of the reply" rows={3} value={text} onText={now => change({ text: now })} />
          {rows.map((row, place) => (
            <fieldset key={place} class="edited-call">
              <legend>{row.callId === undefined ? 'New call' : `Call ${place + 1}`}</legend>
              {row.isDropped === true ? (
                <p>{`The call of ${showSafe(row.name)} is dropped.`}</p>
              ) : (
                <>
                  <TextField
                    label={`Tool of call ${place + 1}`}
                    mono
                    required
                    options={tools}
                    value={row.name}
                    onText={name => changeRow(place, { name })}
                  />
                  <TextField
                    label={`Input of call ${place + 1}`}
                    mono
                    rows={jsonRows(row.input)}
                    value={row.input}
                    problem={problemOf(row)}
                    onText={input => changeRow(place, { input })}
                  />
                </>
              )}
              <Button
                class="quiet"
                label={row.isDropped === true ? 'Keep' : 'Drop'}
                aria-label={`${row.isDropped === true ? 'Keep' : 'Drop'} call ${place + 1}`}
                onClick={() =>
                  row.callId === undefined
                    ? change({ rows: rows.filter(other => other !== row) })
                    : changeRow(place, { isDropped: row.isDropped !== true })
                }
              />
            </fieldset>
          ))}
          <Button
            class="quiet"
            label="Add a call"
            onClick={() => change({ rows: [...rows, { name: tools[0] ?? '', input: '{}' }] })}
          />
          {kept.length === 0 && reply.calls.length > 0 && (
            <p class="hint">Without calls, this text is the answer, and the run may finish with it.</p>
          )}
        </div>
        <div aria-live="polite">
          <Diff
            before={formatReply(reply.text, draftOf(reply).rows)}
            after={formatReply(text, kept.map(tidy))}
          />
        </div>
      </div>
    </Form>
  );
}

function draftOf({ text, calls }: Reply): Draft {
  const rows = calls.map(({ callId, name, input }) => ({
    name,
    input: editableJson(input),
    ...omitUndefined({ callId }),
  }));
  return { text, rows };
}

function tidy({ name, input }: Row): { name: string; input: string } {
  const read = readDraftJson(input);
  return { name, input: 'problem' in read ? input : editableJson(read.value) };
}

function keyOf(calls: readonly EditedCall[]): string {
  return canonicalJson(calls.map(({ callId = null, name, input }) => ({ callId, name, input })));
}
