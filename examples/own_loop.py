"""An agent loop of your own, with hooks around it. The model is a list of replies: put a real one in its place."""

import asyncio

from billhook import Engine, Session, ask, deny, on


@on("PreToolUse", match="send_mail")
def mail_stays_inside(event):
    inside = event.tool_input["to"].endswith("@example.org")
    return ask("A mail in your name") if inside else deny("mail goes to example.org only")


TOOLS = {"send_mail": lambda given: f"sent to {given['to']}"}
REPLIES = [
    {"text": "I tell everybody.", "uses": [{"id": "1", "name": "send_mail", "input": {"to": "all@example.com"}}]},
    {"text": "The team, then.", "uses": [{"id": "2", "name": "send_mail", "input": {"to": "team@example.org"}}]},
    {"text": "Done.", "uses": []},
]
model = lambda system, messages: REPLIES.pop(0)
person = lambda question: input(f"{question.reason}: may it be sent? ") == "yes"


async def main(prompt):
    async with Session(Engine([mail_stays_inside]), ask=person) as session:
        submitted = await session.prompt(prompt)
        messages, going = [prompt], not submitted.denied
        while going and session.stopped is None:
            reply = model(f"You write mails. {session.take_context()}", messages)
            print(reply["text"])
            messages.append(reply)
            for use in reply["uses"]:
                result = await session.call_tool(use["name"], use["input"], TOOLS[use["name"]], tool_use_id=use["id"])
                print("  error:" if result.is_error else "  result:", result.content)
                messages.append(result)
            if not reply["uses"]:
                ending = await session.stop(reply["text"])
                messages, going = [*messages, ending.reason], ending.keep_going


asyncio.run(main("Tell the team that all tests pass."))
