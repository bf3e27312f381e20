import { type Signal, useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import type { JsonValue } from '../../../../protocol/json.ts';
import type { OpenQuestion } from '../../../../protocol/run-view.ts';
import { barOf } from '../../data/caller.ts';
import { showSafe } from '../../render/format.ts';
import { Choice, DraftField, keepDraft, readDraftJson, useDraft } from '../../ui/draft-field.tsx';
import { Panels } from '../../ui/panels.tsx';
import { choicesIn } from '../../ui/schema-fields.tsx';
import { Safe } from '../../ui/text.tsx';
import { type Confirmation, Form } from '../../ui/two-presses.tsx';
import { panelsOf, useQuestion, type Way } from './decision-forms.tsx';
import { draftOf } from './open-decisions.tsx';

/* Loaded together, as one file. */
export { SchemaEditor } from './schema-editor.tsx';
export { SignInBar } from './sign-in-bar.tsx';

type Asked = OpenQuestion['questions'][number];

const DECLINE: Way = {
  opens: 'Decline…',
  key: 'decline',
  label: 'Decline',
  intro: 'The call does not run, unless its tool knows another way.',
  field: 'Reason (the model reads it)',
  isText: true,
  words: what => `Decline what ${what} asks?`,
  answer: reason => ({ type: 'reject', ...(reason !== '' && { reason: `${reason}` }) }),
};

/** To answer what a tool asks, or to decline. */
export function QuestionForms({ call }: { call: OpenQuestion }) {
  const open = useSignal<string | null>(null);
  return (
    <div>
      <AnswerForm call={call} />
      <Panels panels={panelsOf(call, [DECLINE])} open={open} />
    </div>
  );
}

const FIELD = 'answer ';

/** A field for each question; what is left empty stays open. */
function AnswerForm({ call }: { call: OpenQuestion }) {
  const question = useQuestion(call);
  const fields = call.questions.map(asked => {
    const draftKey = `${draftOf(call)}${FIELD}${asked.key}`;
    // biome-ignore lint/correctness/useHookAtTopLevel: the questions of a digest are always the same.
    return { asked, draftKey, draft: useDraft(draftKey), bar: barOf({ ...call, ...asked }) };
  });
  const ask = (): Confirmation | string => {
    const answers: Record<string, JsonValue> = {};
    for (const { asked, draft, bar } of fields) {
      const text = draft.value.trim();
      if (text === '' || bar !== null) continue;
      const read =
        asked.schema.type === 'string' && choicesIn(asked.schema).length === 0
          ? { value: text }
          : readDraftJson(text);
      if ('problem' in read) return `${asked.key}: ${read.problem}`;
      answers[asked.key] = read.value;
    }
    if (Object.keys(answers).length === 0) return 'Answer at least one question.';
    return question(what => `Answer ${what}?`, { type: 'answers', answers }, answers);
  };
  return (
    <Form label="Answer" ask={ask}>
      {fields.map(({ asked, draftKey, draft, bar }) =>
        bar === null ? (
          <Question key={asked.key} asked={asked} draftKey={draftKey} draft={draft} />
        ) : (
          <Safe key={asked.key} in="p" class="muted barred" text={`${asked.message} ${bar}`} />
        ),
      )}
    </Form>
  );
}

type QuestionProps = { asked: Asked; draftKey: string; draft: Signal<string> };

function Question({ asked, draftKey, draft }: QuestionProps) {
  const { message, schema, url = '', fault = '' } = asked;
  const choices = choicesIn(schema);
  const id = useId();
  const label = showSafe(`${message} ${url}`);
  const isJson = !/^(string|number|integer)$/.test(`${schema.type}`);
  return choices.length > 0 ? (
    <div class="field">
      <label for={id}>{label}</label>
      <Choice
        id={id}
        value={draft.value}
        options={[['', 'not answered'], ...choices]}
        onChoose={value => {
          draft.value = value;
          keepDraft(draftKey, value);
        }}
      />
      <p class="problem">{showSafe(fault)}</p>
    </div>
  ) : (
    <DraftField
      draft={draft}
      draftKey={draftKey}
      label={isJson ? `${label} (JSON)` : label}
      problem={fault}
      rows={isJson ? 3 : 1}
      mono={isJson}
    />
  );
}
