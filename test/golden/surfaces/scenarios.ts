import { hideHtmlComments } from '../../../text/hide-html-comments.ts';
import { BUSY, call, MARK, made, refuse, say, think, turn, turnWith, UNAUTHORIZED } from './provider.ts';
import type { Act, Scenario } from './stage.ts';

/** The runs of an agent that every surface shows, by name. */

const APPROVE: Act = { type: 'approve' };
const DONE = turn(say('All done.'));
const MIDDLE = { atMark: async () => {} };

const SEARCH = made({ type: 'web_search_call', action: { type: 'search', query: 'cats' } });
const CITED = say('Cats purr, they say.', {
  annotations: [
    { type: 'url_citation', start_index: 0, end_index: 9, url: 'https://cats.example/', title: 'Cats' },
  ],
});
const IMAGE = made({ type: 'image_generation_call', result: 'aGVsbG8=', output_format: 'png' });

const run = (what: string, how: Extract<Act, { type: 'run' }>['how']): Act => ({ type: 'run', what, how });
const unpause = run('unpause', run => run.unpause({ by: 'ann' }));

const TURNS: Readonly<Record<string, Scenario>> = {
  'plain-text': { about: 'A text.', turns: [turn(say('Hello, here is your answer.'))] },
  unstreamed: {
    about: 'A run whose model calls are not streamed.',
    turns: [turn(think('I look first.'), say('Let me see.'), call('look', { a: 1 })), DONE],
    start: { stream: false },
  },
  'reasoning-and-text': {
    about: 'Reasoning, then a text.',
    turns: [turn(think('The question is short.'), say('So is the answer.'))],
  },
  'several-texts': {
    about: 'Several reasonings and texts in one turn.',
    turns: [
      turn(think('First thoughts.'), say('First text. '), think('Second thoughts.'), say('Second text.')),
    ],
  },
  interleaved: {
    about: 'Two reasonings and two texts whose pieces alternate.',
    turns: [
      turnWith(
        { mixed: true },
        think('One thinks along.'),
        say('One says this at once. '),
        think('Other thoughts too.'),
        say('Other words as well.'),
      ),
    ],
  },
  'sealed-reasoning': {
    about: 'Sealed reasoning with a text, and one without, before a call.',
    turns: [
      turn(think('Readable thoughts.', 'c2VhbGVk'), think('', 'c2VjcmV0'), call('look', { a: 1 })),
      turn(think('', 'bW9yZQ=='), say('Seen.')),
    ],
  },
  'preamble-and-call': {
    about: 'A text with a call, then the answer.',
    turns: [turn(say('Let me look that up.'), call('look', { what: 'the weather in Rome' })), DONE],
  },
  'late-ids': {
    about: 'Calls whose ids are known only when they are complete.',
    turns: [turn(say('Let me look.'), call('look', { what: 'one' }), call('list', { what: 'two' })), DONE],
    hasLateIds: true,
  },
  'parallel-calls': {
    about: 'Three calls in parallel, whose arguments alternate.',
    turns: [
      turnWith(
        { mixed: true },
        call('look', { what: 'the first thing' }),
        call('list', { what: 'the second' }),
        call('look', { what: 'a third one' }, 'call_third'),
      ),
      DONE,
    ],
  },
  rounds: {
    about: 'Three rounds with texts between them.',
    turns: [
      turn(say('First.'), call('look', { n: 1 }, 'call_1')),
      turn(think('More is needed.'), call('list', { n: 2 }, 'call_2')),
      turn(say('Last.'), call('look', { n: 3 }, 'call_3')),
      DONE,
    ],
  },
  'text-after-call': {
    about: 'A text before and after a call of one turn.',
    turns: [turn(say('Before.'), call('look', { a: 1 }), say('After.')), DONE],
  },
  'same-call-id': {
    about: 'The provider uses the id of a call again.',
    turns: [turn(call('look', { n: 1 }, 'call_x')), turn(call('look', { n: 2 }, 'call_x')), DONE],
  },
  'final-differs': {
    about: 'The final text, reasoning and calls differ from what was streamed.',
    turns: [
      turn(say('Streamed words here.', { final: 'Final words are these.' }), call('look', { a: 1 })),
      turn(say('More was streamed than stays.', { final: 'More was streamed' })),
    ],
  },
  refusal: { about: 'The model refuses.', turns: [turn(refuse('I cannot help with that.'))] },
  'refusal-after-text': {
    about: 'The model refuses after a text, and writes more.',
    turns: [turn(refuse('I stop here.', 'It begins well. '), say('And one more thing.'))],
  },
  'web-search': {
    about: 'The provider searches the web, and the text cites a page.',
    turns: [turn(SEARCH, CITED)],
  },
  image: { about: 'The provider makes an image.', turns: [turn(say('Here it is.'), IMAGE)] },
  length: {
    about: 'The answer is cut at the output limit.',
    turns: [turnWith({ incomplete: 'max_output_tokens' }, say('A long answer that'))],
  },
  'length-in-call': {
    about: 'A call is cut at the output limit.',
    turns: [turnWith({ incomplete: 'max_output_tokens' }, say('I look.'), call('look', '{"a": 1')), DONE],
  },
  'content-filter': {
    about: 'The provider filters the answer.',
    turns: [turnWith({ incomplete: 'content_filter' }, say('It goes like'))],
  },
  'empty-turn': { about: 'The model says nothing.', turns: [turn()] },
  compaction: {
    about: 'The provider compacts the conversation before it answers.',
    turns: [turn(made({ type: 'compaction', encrypted_content: 'c2hvcnQ=' }), say('In short.'))],
  },
};

const FAILURES: Readonly<Record<string, Scenario>> = {
  'retried-text': {
    about: 'The stream breaks off in a text, and the turn is tried again.',
    turns: [
      turnWith({ cut: 8 }, think('Hm.'), say('Alpha beta gamma delta.')),
      turn(say('Alpha beta done.')),
    ],
  },
  'retried-call': {
    about: 'The stream breaks off in the arguments of a call after a text.',
    turns: [
      turnWith({ cut: 7 }, say('Let me.'), call('look', { what: 'a long argument' })),
      turn(say('Let me see.'), call('look', { what: 'a long argument' })),
      DONE,
    ],
  },
  'retried-twice': {
    about: 'Two attempts fail, one before and one after some text.',
    turns: [BUSY, turnWith({ cut: 4 }, say('Some words are here.')), turn(say('Now it works.'))],
  },
  fallback: {
    about: 'The first model fails in a text, and another one answers.',
    turns: {
      gpt: [turnWith({ cut: 4 }, say('From the first one.'))],
      spare: [turn(say('From the spare one.'))],
    },
    options: { retry: { attempts: 1 } },
  },
  'failed-run': { about: 'The provider refuses the key.', turns: [UNAUTHORIZED] },
  'failed-after-call': {
    about: 'The run fails after a call and some text.',
    turns: [turn(say('I look.'), call('look')), turnWith({ cut: 4 }, say('It breaks off here.'))],
    options: { retry: { attempts: 1 } },
  },
  'died-in-text': {
    about: 'A process dies in a text; another one discards the attempt and writes another.',
    died: [turn(think('Hm.'), say('Lost words.'), MARK, say('Never.'))],
    turns: [turn(say('Found words.'))],
  },
  'died-after-call': {
    about: 'A process dies in the second turn; another one continues after the call.',
    died: [turn(say('I look.'), call('look', { a: 1 })), turn(say('Lost words.'), MARK, say('Never.'))],
    turns: [turn(say('Found words.'))],
  },
  'turn-limit': {
    about: 'The limit of turns is reached: the model closes without tools.',
    turns: [turn(call('look')), turn(say('In short, this.'))],
    options: { limits: { turns: 1 } },
  },
  'limit-stops': {
    about: 'The limit of tool calls is reached, and the run stops.',
    turns: [turn(call('look', {}, 'call_1'), call('list', {}, 'call_2')), DONE],
    options: { limits: { toolCalls: 1, turns: 1 }, onLimit: 'stop' },
  },
  'usage-unknown': {
    about: 'A turn does not say what it used, and the run has a limit on tokens.',
    turns: [turnWith({ uncounted: true }, say('I look.'), call('look', { a: 1 })), DONE],
    options: { limits: { tokens: 1_000 } },
  },
  'usage-estimated': {
    about: 'A turn does not say what it used, and the agent estimates it.',
    turns: [turnWith({ uncounted: true }, say('A guess.'))],
    options: { limits: { tokens: 1_000 }, onUnknownUsage: 'estimate' },
  },
  'tool-errors': {
    about: 'A tool fails, one is unknown, one gets a wrong input, and one no JSON.',
    turns: [
      turn(
        call('fail', { a: 1 }),
        call('missing', { b: 2 }),
        call('strict', { cents: 'many' }),
        call('look', 'no json'),
        call('list'),
      ),
      DONE,
    ],
  },
  'tool-progress': { about: 'A tool reports progress.', turns: [turn(call('slow', { n: 1 })), DONE] },
};

const PEOPLE: Readonly<Record<string, Scenario>> = {
  approved: {
    about: 'An approval, after a text and beside a call that runs at once.',
    turns: [turn(think('Money.'), say('I pay.'), call('pay', { cents: 5 }), call('look', { a: 1 })), DONE],
    acts: [APPROVE],
  },
  'approved-edited': {
    about: 'A call is approved with another input.',
    turns: [turn(call('pay', { cents: 500 })), DONE],
    acts: [{ type: 'approve', input: { cents: 5 } }],
  },
  rejected: {
    about: 'A call is rejected with a reason, and another without.',
    turns: [turn(call('pay', { cents: 5 }), call('pay', { cents: 6 }, 'call_more')), turn(say('Not paid.'))],
    acts: [{ type: 'reject', reason: 'too much' }, { type: 'reject' }],
  },
  'answered-by-person': {
    about: 'A person gives the result of a gated call.',
    turns: [turn(call('pay', { cents: 5 })), DONE],
    acts: [{ type: 'answer', output: { paid: 'by hand' } }],
  },
  expired: {
    about: 'An approval expires.',
    turns: [turn(say('Quick.'), call('hurry')), turn(say('Too late.'))],
    acts: [run('a minute passes', (_, { host }) => host.advance(60_000))],
  },
  'client-tool': {
    about: "The client gives a tool's result, then an error.",
    turns: [
      turn(call('ask', { question: 'Which?' })),
      turn(call('ask', { again: true }, 'call_again')),
      DONE,
    ],
    acts: [
      { type: 'answer', output: 'the blue one' },
      { type: 'answer', output: 'no idea', isError: true },
    ],
  },
  'doubt-happened': {
    about: 'A call in doubt has happened.',
    turns: [turn(say('I charge.'), call('charge', { cents: 5 })), DONE],
    acts: [{ type: 'resolve', as: { happened: true, output: 'charged' } }],
  },
  'doubt-failed': {
    about: 'A call in doubt has failed.',
    turns: [turn(call('charge', { cents: 5 })), DONE],
    acts: [{ type: 'resolve', as: { failed: 'The bank refused.' } }],
  },
  'doubt-retried': {
    about: 'A call in doubt runs again, and is in doubt again.',
    turns: [turn(call('charge', { cents: 5 })), DONE],
    acts: [
      { type: 'resolve', as: { retry: true } },
      { type: 'resolve', as: { failed: 'It never worked.' } },
    ],
  },
  'message-supersedes': {
    about: 'A message comes while a call waits, and supersedes it.',
    turns: [turn(say('I pay.'), call('pay', { cents: 5 })), turn(say('Something else, then.'))],
    options: { onMessage: 'supersede' },
    acts: [run('a message comes', run => run.send('Something else.', { by: 'ann' }))],
  },
  'message-waits': {
    about: 'A message comes while a call waits, and is read after its approval.',
    turns: [turn(say('I pay.'), call('pay', { cents: 5 })), turn(say('Paid, and blue.'))],
    acts: [run('a message comes', run => run.send('Make it blue.', { by: 'ann' })), APPROVE],
  },
  'message-while-writing': {
    about: 'A message comes while the model writes.',
    turns: [turn(say('I write'), MARK, say(' an answer.')), turn(say('And to that, this.'))],
    atMark: run => run.send('One more thing.', { by: 'ann' }),
  },
  paused: {
    about: 'A run begins paused, takes a step, and goes on.',
    turns: [turn(say('I look.'), call('look')), DONE],
    start: { paused: true },
    acts: [run('step', run => run.step({ by: 'ann' })), unpause],
  },
  'paused-while-writing': {
    about: 'A run is paused while the model writes a text and a call.',
    turns: [turn(say('I look'), MARK, say(' at it.'), call('look')), DONE],
    atMark: run => run.pause({ by: 'ann' }),
    acts: [unpause],
  },
  'cancelled-waiting': {
    about: 'A run is cancelled while a call waits.',
    turns: [turn(say('I pay.'), call('pay', { cents: 5 }))],
    acts: [run('cancel', run => run.cancel({ by: 'ann', reason: 'changed my mind' }))],
  },
  'cancelled-while-writing': {
    about: 'A run is cancelled while the model writes.',
    turns: [turn(think('Hm.'), say('I write'), MARK, say(' an answer.'))],
    atMark: async run => void run.cancel({ by: 'ann' }).catch(() => {}),
  },
  'late-reader': {
    about: 'A reader comes in the middle of a call, and of the answer.',
    turns: [
      turn(think('A thought.'), say('I look.'), MARK, call('look', { what: 'a long argument' })),
      turn(say('First half, '), MARK, say('second half.')),
    ],
    ...MIDDLE,
  },
};

const EDITS: Readonly<Record<string, Scenario>> = {
  'turn-edited': {
    about: 'A person edits the text and the calls of a turn that waits.',
    turns: [turn(say('I pay.'), call('pay', { cents: 5 }), call('pay', { cents: 7 }, 'call_more')), DONE],
    acts: [
      run('the turn is edited', run =>
        run.editTurn({
          text: 'I pay less.',
          calls: [{ callId: 'call_pay', name: 'pay', input: { cents: 1 } }],
          by: 'ann',
        }),
      ),
      APPROVE,
    ],
  },
  'call-edited': {
    about: 'A person edits the input of a call that waits.',
    turns: [turn(call('pay', { cents: 5 })), DONE],
    acts: [
      run('the call is edited', run => run.editCall('call_pay', { input: { cents: 2 }, by: 'ann' })),
      APPROVE,
    ],
  },
  'transcript-edited': {
    about: 'A paused run gets another transcript.',
    turns: [turn(say('I look.'), call('look')), DONE],
    start: { paused: true },
    acts: [
      run('step', run => run.step({ by: 'ann' })),
      run('the transcript is edited', run =>
        run.editTranscript(
          [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'Do something else.' }] }],
          { by: 'ann' },
        ),
      ),
      unpause,
    ],
  },
};

const FORKS: Readonly<Record<string, Scenario>> = {
  forked: {
    about: 'A fork after the first turn, which the model answers otherwise.',
    turns: [turn(say('I look.'), call('look')), DONE, turn(say('Done otherwise.'))],
    forksAt: 7,
  },
};

const ANSWERS: Readonly<Record<string, Scenario>> = {
  held: {
    about: 'A held answer: readers get it once it is complete, and no preamble.',
    turns: [turn(think('Hm.'), say('Let me look.'), call('look')), turn(say('The held answer.'))],
    options: { finalAnswer: 'held' },
  },
  separate: {
    about: 'A separate answer: the draft is not shown.',
    turns: [turn(say('Let me look.'), call('look')), turn(say('A draft.')), turn(say('The real answer.'))],
    options: { finalAnswer: 'separate' },
  },
  'guardrail-changes': {
    about: 'A guardrail changes the answer.',
    turns: [turn(think('Hm.'), say('A fine answer.'))],
    options: { guardrails: { answer: text => ({ type: 'replace', value: `${text} Checked.` }) } },
  },
  'guardrail-blocks': {
    about: 'A guardrail blocks the first answer and changes the second one.',
    turns: [turn(say('A rude answer.')), turn(say('A polite answer.'))],
    options: {
      guardrails: {
        answer: text =>
          text.includes('rude')
            ? { type: 'block', reason: 'Be polite.' }
            : { type: 'replace', value: `${text} Thanks.` },
      },
    },
  },
  'guardrail-and-held': {
    about: 'A guardrail blocks and changes held answers.',
    turns: [turn(say('A rude answer.')), turn(say('A polite answer.'))],
    options: {
      finalAnswer: 'held',
      guardrails: {
        answer: text =>
          text.includes('rude')
            ? { type: 'block', reason: 'Be polite.' }
            : { type: 'replace', value: `${text} Thanks.` },
      },
    },
  },
  'answer-reviewed': {
    about: 'An answer is reviewed: the first one is sent back, and the second one changed.',
    turns: [turn(say('It costs 5.')), turn(say('It costs some.'))],
    options: { guardrails: { answer: () => ({ type: 'ask', reason: 'a price' }) } },
    acts: [
      run('the answer is sent back', run =>
        run.reject(run.context.review?.id ?? '', { reason: 'No numbers.', by: 'ann' }),
      ),
      run('the answer is changed', run =>
        run.approve(run.context.review?.id ?? '', { answer: 'Ask sales.', by: 'ann' }),
      ),
    ],
  },
  'text-filter': {
    about: 'A text filter hides comments, before a call and in the answer.',
    turns: [
      turn(say('Let <!-- not this --> me look.'), call('look')),
      turn(say('The answer <!-- nor this --> is here.'), say(' <!-- open')),
    ],
    options: { textFilters: [hideHtmlComments] },
  },
};

const ask = call('clerk', { input: 'Pay it.' });

const FAMILIES: Readonly<Record<string, Scenario>> = {
  'sub-agent': {
    about: 'A sub-agent looks, and answers.',
    hasClerk: true,
    turns: {
      gpt: [turn(say('I ask the clerk.'), ask), turn(say('The clerk did it.'))],
      clerk: [turn(think('Below.'), say('I look.'), call('look', { a: 1 })), turn(say('Looked.'))],
    },
  },
  'sub-agent-waits': {
    about: 'A sub-agent waits for an approval.',
    hasClerk: true,
    turns: {
      gpt: [turn(say('I ask the clerk.'), ask, call('look')), turn(say('The clerk did it.'))],
      clerk: [turn(say('I pay.'), call('pay', { cents: 5 })), turn(say('Paid.'))],
    },
    acts: [APPROVE],
  },
  background: {
    about: 'A call works in the background; the model goes on, and reads the outcome.',
    ships: true,
    turns: [
      turn(say('I send it.'), call('ship', { parcel: 7 })),
      turn(say('It is on its way.')),
      turn(say('It has arrived.')),
    ],
  },
  'sub-agent-fails': {
    about: 'A sub-agent fails.',
    hasClerk: true,
    turns: {
      gpt: [turn(ask), turn(say('The clerk is ill.'))],
      clerk: [turn(say('I look.'), call('look')), UNAUTHORIZED],
    },
  },
};

export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  ...TURNS,
  ...FAILURES,
  ...PEOPLE,
  ...EDITS,
  ...FORKS,
  ...ANSWERS,
  ...FAMILIES,
};
