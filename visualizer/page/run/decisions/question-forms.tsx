import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../../protocol/json.ts';
import type { OpenQuestion } from '../../../../protocol/run-view.ts';
import { barOf } from '../../data/caller.ts';
import { editableJson, readDraftJson, useDraft } from '../../ui/draft-field.tsx';
import { Panels } from '../../ui/panels.tsx';
import { Safe } from '../../ui/text.tsx';
import type { Confirmation } from '../../ui/two-presses.tsx';
import { panelsOf, useQuestion, type Way } from './decision-forms.tsx';
import { draftOf, rejectionFor } from './open-decisions.tsx';
import { BothWays } from './schema-editor.tsx';

const DECLINE: Way = {
  opens: 'Decline…',
  key: 'decline',
  label: 'Decline',
  intro: 'The call does not run, unless its tool knows another way.',
  field: 'Reason (the model reads it)',
  isText: true,
  words: what => `Decline what ${what} asks?`,
  answer: rejectionFor,
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

/** The answers are an object with a member for each question; what it lacks stays open. */
function AnswerForm({ call }: { call: OpenQuestion }) {
  const question = useQuestion(call);
  const draftKey = `${draftOf(call)}answer`;
  const draft = useDraft(draftKey, '{}');
  const all = call.questions.map(asked => ({ asked, bar: barOf({ ...call, ...asked }) }));
  const mine = all.flatMap(({ asked, bar }) => (bar === null ? [asked] : []));
  const properties = Object.fromEntries(
    mine.map(({ key, message, url = '', schema }) => [key, { ...schema, title: `${message} ${url}`.trim() }]),
  );
  useMemo(() => {
    // What is no longer asked leaves the draft.
    const read = readDraftJson(draft.peek());
    const typed = 'value' in read && isJsonObject(read.value) ? Object.entries(read.value) : [];
    const kept = typed.filter(([key]) => key in properties);
    if (kept.length < typed.length) draft.value = editableJson(Object.fromEntries(kept));
  }, [Object.keys(properties).join()]);
  const answer = (answers: JsonValue): Confirmation =>
    question(what => `Answer ${what}?`, { type: 'answers', answers: answers as JsonObject }, answers);
  return (
    <>
      {all.map(
        ({ asked, bar }) =>
          bar !== null && <Safe key={asked.key} in="p" class="muted" text={`${asked.message} ${bar}`} />,
      )}
      <BothWays
        label="Answers"
        submit="Answer"
        unchanged="Answer at least one question."
        draftKey={draftKey}
        draft={draft}
        input={{}}
        schema={{ properties }}
        faults={Object.fromEntries(mine.map(({ key, fault = '' }) => [key, fault]))}
        words={answers => answer(answers).words}
        send={async answers => {
          await answer(answers).act();
          return null;
        }}
      />
    </>
  );
}
