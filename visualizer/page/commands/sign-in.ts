import { h } from '../render/element.ts';
import { ApiError, request } from '../runs-api.ts';

/** Shows the sign-in form, which exchanges the token for a cookie and reloads the page. */
export function showSignIn(page: Element): void {
  if (page.querySelector('.sign-in') !== null) return;
  const problem = h('p', { class: 'problem', role: 'alert' });
  const token = h('input', {
    type: 'password',
    id: 'token',
    name: 'token',
    required: true,
    autocomplete: 'current-password',
  });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    problem.textContent = '';
    try {
      await request('/session', { token: token.value });
      location.reload();
    } catch (error) {
      problem.textContent = describeFailure(error);
      token.select();
    }
  };
  page.replaceChildren(
    h(
      'main',
      { class: 'sign-in' },
      h('h1', {}, 'Agentchart'),
      h('p', {}, 'This server requires a token to sign in.'),
      h(
        'form',
        { onsubmit: submit },
        h('label', { for: 'token' }, 'Token'),
        token,
        h('button', { class: 'primary' }, 'Sign in'),
      ),
      problem,
    ),
  );
  token.focus();
}

function describeFailure(error: unknown): string {
  if (error instanceof ApiError && error.status === 401)
    return 'Wrong token. Use the token that the server was started with (AGENTCHART_TOKEN or --token).';
  return error instanceof Error ? error.message : String(error);
}
